"""One module for each framework that the suite calls, and what only they share."""
