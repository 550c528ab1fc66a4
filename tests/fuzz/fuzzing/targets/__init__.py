"""Hold one module for each target: the input that it changes, and the properties that must hold."""
