"""What is asked: test cases, one theme of the rule book a file in `themes/`."""
