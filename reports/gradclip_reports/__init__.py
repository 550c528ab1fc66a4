"""The record format, and everything drawn from records.

`records` writes and reads records; `render` draws them.
"""
