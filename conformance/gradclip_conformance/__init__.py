"""The conformance suite: cases, oracle, judge, runner, pytest plugin and command line.

For a plain function on NumPy arrays, :func:`check_clipper` is all there is to know::

    from gradclip_conformance import check_clipper
    results = check_clipper(my_clip, op="clip_by_global_norm")
"""

from __future__ import annotations

from .check_clipper import check_clipper

__all__ = ["check_clipper"]
