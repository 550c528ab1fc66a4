"""Test combinations of circumstances, such as dtypes, shapes and thresholds, by a covering design (see `axes`)."""
