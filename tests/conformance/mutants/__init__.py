"""Test the suite itself with mutants that have one defect each, and with right functions written in many ways.

`table.py` says how a mutant is added; the modules `of_*.py` add them.
"""

from __future__ import annotations

from . import (
    of_combinations,
    of_effects,
    of_lists,
    of_norms,
    of_other_operations,
    of_rare_calls,
    of_special_values,
    of_values,
)
from .table import WRONG, Wrong

__all__ = [
    "WRONG",
    "Wrong",
    "of_combinations",
    "of_effects",
    "of_lists",
    "of_norms",
    "of_other_operations",
    "of_rare_calls",
    "of_special_values",
    "of_values",
]
