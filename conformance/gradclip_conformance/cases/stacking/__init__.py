"""Stack the gradients of a case for a call, and take the answer apart: examples and units."""
