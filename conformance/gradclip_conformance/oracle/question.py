"""Define the input of an oracle: gradients, an operation and its options. A case is such an input."""

from __future__ import annotations

import math
from collections.abc import Mapping
from fractions import Fraction
from typing import Any, Protocol

from gradclip_adapters.contract import Gradient
from gradclip_adapters.operations import OPERATIONS

from .formats import FORMATS


class Question(Protocol):
    """The parts of a call that determine its result."""

    @property
    def operation(self) -> str:
        """The operation, as the contract names it."""

    @property
    def gradients(self) -> tuple[Gradient, ...]:
        """All gradients, included or not."""

    @property
    def options(self) -> Mapping[str, Any]:
        """The options, as the contract names them."""

    @property
    def dtype(self) -> str:
        """The dtype, or several of them joined by `+`."""

    @property
    def included(self) -> tuple[int, ...]:
        """The indices of the gradients that exist and are not excluded."""

    @property
    def norm_type(self) -> float:
        """The order of the norm."""


def find_narrowest(question: Question) -> str:
    """Return the dtype with the fewest digits among the included gradients."""
    return min(_list_dtypes(question), key=lambda name: FORMATS[name].precision)


def find_widest_range(question: Question) -> str:
    """Return the dtype with the largest numbers among the included gradients."""
    return max(_list_dtypes(question), key=lambda name: FORMATS[name].maximum_exponent)


def _list_dtypes(question: Question) -> list[str]:
    """Return the dtypes of the included gradients, or that of the call if it has none."""
    arrays = [question.gradients[i].array for i in question.included]
    return [array.dtype for array in arrays if array is not None] or [question.dtype.partition("+")[0]]


def get_clipping_threshold(question: Question) -> float:
    """Return the threshold of a call by norm. A unitwise clip multiplies it by the norm of each unit's parameter.

    A layer of an example has only a part of it (see `compute_layer_share`).
    """
    return float(question.options[OPERATIONS[question.operation].threshold])


def get_bounds(question: Question) -> tuple[float, float]:
    """Return the bounds of a clip by value. The lower one, if it is not given, is minus the upper one."""
    high = float(question.options["max"])
    return float(question.options.get("min", -high)), high


def compute_layer_share(question: Question, index: int) -> Fraction | None:
    """Return the square of a layer's part of the threshold, or None if no gradient is a layer of its own."""
    layers = question.options.get("layers")
    if layers is None:
        return None
    group = question.gradients[index].group
    sizes = {i: _count_elements(question, i) for i in question.included if question.gradients[i].group == group}
    return Fraction(1, len(sizes)) if layers == "equal" else Fraction(sizes[index], max(sum(sizes.values()), 1))


def _count_elements(question: Question, index: int) -> int:
    array = question.gradients[index].array
    return 0 if array is None else math.prod(array.shape)


def count_elements(question: Question) -> int:
    """Return the number of elements of all gradients."""
    return sum(_count_elements(question, i) for i in range(len(question.gradients)))


def count_divisor(operation: str, elements: int) -> int:
    """Return the number that divides the sum of squares of a gradient with this number of elements. It is 1 or more."""
    divisor: int = max(elements, 1) ** OPERATIONS[operation].averaging_power
    return divisor


def list_norm_groups(question: Question) -> list[list[int]]:
    """Return the groups of gradients that share a norm."""
    operation = OPERATIONS[question.operation]
    if operation.is_global:
        return [list(question.included)]
    if operation.sums_examples and "layers" not in question.options:
        # The gradients of an example share a norm.
        numbers = dict.fromkeys(question.gradients[i].group for i in question.included)
        return [[i for i in question.included if question.gradients[i].group == number] for number in numbers]
    return [[i] for i in question.included]
