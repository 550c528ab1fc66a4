"""The test cases: a file in `themes/` holds those of one theme of the rule book."""
