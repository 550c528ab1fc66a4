"""Both oracles, asked together: they must agree, and each does alone what the other cannot.

The first, `integers`, is always there. The second, `balls`, is where python-flint is installed.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from importlib.metadata import version
from types import ModuleType
from typing import Any

from . import integers
from .formats import Exact, power_of_two
from .model import Clipped, Expected

__all__ = ["OraclesDisagreeError", "clip_by_norm", "clip_by_value", "second_oracle"]


def _second() -> ModuleType | None:
    try:
        from . import balls
    except ImportError:
        return None
    return balls


SECOND = _second()

#: Elements up to which the second oracle is asked about a clip by value.
MANY = 4096


class OraclesDisagreeError(Exception):
    """The two oracles contradict each other: the suite's own fault, whatever the answer was."""


def second_oracle() -> str:
    """What the second oracle reckons with, for the header of a record."""
    return "not installed" if SECOND is None else f"python-flint {version('python-flint')}"


def clip_by_norm(
    tensors: Sequence[Exact | None],
    included: Sequence[bool],
    threshold: float,
    p: float,
    formula: Mapping[str, Any],
) -> Clipped:
    """What is expected of a clip of finite gradients by their common norm.

    Raises
    ------
    OraclesDisagreeError
        When the oracles contradict each other.
    NoExactNormError
        For an order that integers do not reach, where the second oracle is not installed.
    """
    arguments = (tensors, threshold, p, included, formula)
    try:
        first = integers.clip_by_global_norm(*arguments)
    except integers.NoExactNormError:
        if SECOND is None:
            raise
        alone: Clipped = SECOND.clip_by_global_norm(*arguments)
        return alone
    if SECOND is not None:
        problem = SECOND.disagreement(first, SECOND.clip_by_global_norm(*arguments))
        if problem is not None:
            msg = f"The two oracles disagree on norm type {p:g} and threshold {threshold!r}: {problem}."
            raise OraclesDisagreeError(msg)
    return first


def clip_by_value(values: Exact, low: float, high: float) -> Expected:
    """What is expected of a clip by value; an infinite bound is no bound.

    Raises
    ------
    OraclesDisagreeError
        When the oracles contradict each other.
    """
    # An infinite bound stands for one that no finite element reaches; infinite elements are beyond none.
    reach = (1 + max((abs(integer) for integer in values.integers), default=0)) * power_of_two(values.exponent)
    beyond = reach + max((abs(Fraction(bound)) for bound in (low, high) if math.isfinite(bound)), default=Fraction(0))
    bounds = [bound if math.isfinite(bound) else beyond * (1 if bound > 0 else -1) for bound in (low, high)]
    first = integers.clip_by_value(values, *bounds)
    # The second oracle takes fractions one by one, and there is nothing in a longer array that is not in a short one.
    if SECOND is not None and len(values) <= MANY and not _same(first, SECOND.clip_by_value(values, *bounds)):
        msg = f"The two oracles disagree on the clip by value to [{low}, {high}]."
        raise OraclesDisagreeError(msg)
    kept = {place: value for place, value in values.special.items() if value in (low, high)}
    return replace(first, values=replace(first.values, special={**first.values.special, **kept})) if kept else first


def _same(first: Expected, second: Expected) -> bool:
    """Whether two expectations hold the same numbers, by cross multiplication."""
    one, other = (expected.values.exponent for expected in (first, second))
    lowest = min(one, other)
    left = first.numerator * second.denominator << (one - lowest)
    right = second.numerator * first.denominator << (other - lowest)
    places = (first.values.special.keys(), second.values.special.keys())
    return places[0] == places[1] and all(
        a * left == b * right for a, b in zip(first.values.integers, second.values.integers, strict=True)
    )
