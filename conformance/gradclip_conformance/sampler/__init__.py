"""Draw rows: calls that combine circumstances, such as dtypes, shapes and thresholds (see `axes`)."""
