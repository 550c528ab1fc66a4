"""Read the known failures of frameworks, and the claims of their documentations."""
