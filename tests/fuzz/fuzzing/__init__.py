"""Fuzz everything that comes from outside; `python tests/fuzz/run.py --help` runs it.

An example is a JSON value, from which a target makes its input by itself. So an example prints, keeps in a file, and
replays with any version of hypothesis.
"""
