"""Define the record format, and make all reports from records.

`records` writes and reads records; `render` draws them.
"""
