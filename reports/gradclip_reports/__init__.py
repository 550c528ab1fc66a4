"""The record format, and all reports that are made from records.

`records` writes and reads records; `render` draws them.
"""
