"""Make a static site from records: pages that people open without a server, a network or a framework.

`questions` answers the questions of the matrix from a run, and `build` writes the pages.
"""
