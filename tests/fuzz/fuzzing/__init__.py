"""Fuzz everything that comes from outside. `python tests/fuzz/run.py --help` tells how to run it.

An example is a JSON value, and the target makes its input from it. So an example can be printed, kept in a file, and
replayed with any version of Hypothesis.
"""
