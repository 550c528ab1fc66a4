"""Measure, in ulp, how accurate a framework is, and write the table."""
