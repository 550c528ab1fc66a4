"""Collect all mutation operators by name.

An operator names the step, the gradients that it affects ("included", "excluded"), and the change. A change gets a
memory that persists between calls, the value of the step, and other details from the style.
"""

from __future__ import annotations

from .faults import Operator
from .operators_norms import list_norm_operators
from .operators_results import list_result_operators

__all__ = ["OPERATORS"]

OPERATORS: dict[str, Operator] = {
    operator.name: operator for operator in (*list_norm_operators(), *list_result_operators())
}
