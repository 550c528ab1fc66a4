"""Hold an answer against its rule and against the documentation of its framework."""
