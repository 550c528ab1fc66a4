"""Holds no adapter."""

ANSWER = 42
