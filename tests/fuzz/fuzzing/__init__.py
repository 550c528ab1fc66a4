"""Fuzz everything that comes from outside: `nox -s fuzz`.

An example is a JSON value, and the target makes its input from it. So an example can be printed, kept in a file, and
replayed with any version of Hypothesis.
"""
