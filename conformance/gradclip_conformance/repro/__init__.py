"""Write scripts that show a failure without this suite."""
