"""Hold the test cases. Each file in `themes/` holds the cases of one theme of the rule catalogue."""
