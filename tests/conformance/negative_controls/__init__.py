"""Adapters whose frameworks' functions are replaced, so that their checks must fail."""
