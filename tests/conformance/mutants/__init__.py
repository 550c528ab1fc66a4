"""Test the suite itself with mutants that have one defect each, and with right functions written in many ways.

`table.py` says how a mutant is added; the modules `of_*.py` add them.
"""

from . import of_effects, of_lists, of_norms, of_other_operations, of_rare_calls, of_values  # noqa: F401
from .table import WRONG, Wrong

__all__ = ["WRONG", "Wrong"]
