"""Measure how accurate a framework is, in ulp, and draw the table."""
