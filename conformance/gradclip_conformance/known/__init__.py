"""Known failures, and claims of documentations."""
