"""Test combinations of circumstances by a covering design: its rows hold every pair or triple of levels of the axes."""
