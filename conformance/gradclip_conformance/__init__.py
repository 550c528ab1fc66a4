"""Check clip functions against the specification: cases, oracle, judge, runner, pytest plugin and command line.

To check a plain function on NumPy arrays, call :func:`check_clipper`::

    from gradclip_conformance import check_clipper
    results = check_clipper(my_clip, op="clip_by_global_norm")
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .api import assert_conforms, check_clipper
    from .decorator import conforms

__all__ = ["assert_conforms", "check_clipper", "conforms"]


def __getattr__(name: str) -> Any:
    """Import the suite when it is needed, because every run of pytest loads this package for its plugin."""
    if name in __all__:
        from importlib import import_module

        return getattr(import_module(".decorator" if name == "conforms" else ".api", __name__), name)
    msg = f"module {__name__!r} has no attribute {name!r}"
    raise AttributeError(msg)
