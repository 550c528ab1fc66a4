"""Define no adapter."""

ANSWER = 42
