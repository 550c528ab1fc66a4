"""The record format, and everything drawn from records."""
