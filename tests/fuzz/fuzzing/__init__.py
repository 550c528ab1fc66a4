"""Draw hostile input, and check what the suite makes of it, for the Hypothesis tests beside this package."""
