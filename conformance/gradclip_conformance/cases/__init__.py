"""Hold the test cases: each file in `themes/` holds the cases of one theme of the rule book."""
