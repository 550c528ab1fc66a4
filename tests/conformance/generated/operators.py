"""All mutation operators by name.

An operator names the step, the gradients that it is about ("included", "excluded"), and the change. A change gets a
memory that lasts from call to call, the value of the step, and what else the style tells about it.
"""

from __future__ import annotations

from .faults import Operator
from .operators_norms import list_norm_operators
from .operators_results import list_result_operators

__all__ = ["OPERATORS"]

OPERATORS: dict[str, Operator] = {
    operator.name: operator for operator in (*list_norm_operators(), *list_result_operators())
}
