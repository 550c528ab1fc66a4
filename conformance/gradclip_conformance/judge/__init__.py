"""Judge an answer by its rule and by the documentation of its framework."""
