"""The suite's own exam: clippers that are wrong in one way each, and clippers that are right in many ways."""

from __future__ import annotations

from . import (
    wrong_adapters,
    wrong_compiled,
    wrong_effects,
    wrong_exclusion,
    wrong_integers,
    wrong_large,
    wrong_lists,
    wrong_nonfinite,
    wrong_norms,
    wrong_numerics,
    wrong_relations,
    wrong_returned,
    wrong_scaling,
    wrong_shapes,
    wrong_threads,
    wrong_totals,
    wrong_value,
    wrong_value_edges,
    wrong_written,
    wrong_zero,
)
from .table import WRONG, Wrong

__all__ = [
    "WRONG",
    "Wrong",
    "wrong_adapters",
    "wrong_compiled",
    "wrong_effects",
    "wrong_exclusion",
    "wrong_integers",
    "wrong_large",
    "wrong_lists",
    "wrong_nonfinite",
    "wrong_norms",
    "wrong_numerics",
    "wrong_relations",
    "wrong_returned",
    "wrong_scaling",
    "wrong_shapes",
    "wrong_threads",
    "wrong_totals",
    "wrong_value",
    "wrong_value_edges",
    "wrong_written",
    "wrong_zero",
]
