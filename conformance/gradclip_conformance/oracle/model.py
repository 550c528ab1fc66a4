"""Define the answers of an oracle: the enclosure of a norm, the expected elements, and their error bounds.

Both oracles, `integers` and `balls`, give these answers; they share no arithmetic.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, fields, replace
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from .long_integers import LongIntegers

ONE = Fraction(1)


@dataclass(frozen=True)
class DyadicArray:
    """The elements of an array as `integers[i] * 2**exponent`, with their signs, NaN and infinities kept apart."""

    #: 0 for an element that is not finite.
    integers: list[int] | LongIntegers
    exponent: int
    #: The sign bit of each element, also of a zero or a NaN.
    negative: Sequence[int]
    #: The elements that are not finite, by their place.
    special: dict[int, float] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.integers)

    @cached_property
    def doubles(self) -> npt.NDArray[np.float64]:
        """The elements of a decoded array in float64, which holds all numbers of all formats, and 0 for NaN."""
        if isinstance(self.integers, LongIntegers):
            return self.integers.convert_to_doubles(self.exponent)
        try:
            return np.ldexp(np.array(self.integers, dtype=np.float64), self.exponent)
        except OverflowError:
            # The elements may differ by more than the range of float64. Dividing integers is exact here.
            denominator = 1 << -self.exponent
            return np.array([integer / denominator for integer in self.integers])

    @property
    def is_finite(self) -> bool:
        """Whether no element is NaN or infinite."""
        return not self.special

    def take_places(self, places: Sequence[int]) -> DyadicArray:
        """Return the elements at some places."""
        special = {}
        if self.special:
            special = {new: self.special[place] for new, place in enumerate(places) if place in self.special}
        negative = bytes(map(self.negative.__getitem__, places))
        if isinstance(self.integers, LongIntegers):
            return DyadicArray(self.integers.take_places(places), self.exponent, negative, special)
        return DyadicArray(list(map(self.integers.__getitem__, places)), self.exponent, negative, special)

    def list_fractions(self) -> list[Fraction]:
        """Return the elements as fractions, with 0 for those that are not finite."""
        unit = Fraction(2) ** self.exponent
        return [integer * unit for integer in self.integers]


@dataclass(frozen=True)
class Enclosure:
    """An interval [lower, upper] that holds a norm. The two ends are equal if the norm is known exactly."""

    lower: Fraction
    upper: Fraction
    #: The norm to the power of `order`, exactly, if that is known.
    power: Fraction | None = None
    order: int = 1

    @cached_property
    def middle(self) -> Fraction:
        """The middle of the interval, which further computations use."""
        return (self.lower + self.upper) / 2


@dataclass(frozen=True)
class ExpectedArray:
    """The expected elements of one gradient: `values[i] * factor`."""

    values: DyadicArray
    factor: Fraction = ONE

    @property
    def is_unchanged(self) -> bool:
        """Whether the coefficient is exactly 1."""
        return self.factor == 1

    def list_fractions(self) -> list[Fraction]:
        """Return the elements as fractions, with 0 for those that are not finite."""
        return [self.factor * value for value in self.values.list_fractions()]

    def take_places(self, places: Sequence[int]) -> ExpectedArray:
        """Return the elements at some places."""
        return replace(self, values=self.values.take_places(places))

    def multiply_by(self, factor: Fraction) -> ExpectedArray:
        """Return the array with each element multiplied by `factor`."""
        return replace(self, factor=self.factor * factor)


@dataclass(frozen=True)
class Clipped:
    """The expected result of a clip by norm."""

    #: One entry for each gradient. It is None for a missing gradient.
    gradients: tuple[ExpectedArray | None, ...]
    #: The norm of the included gradients before the clip.
    norm: Enclosure
    #: The norm lies below (-1), at (0) or above (+1) the threshold.
    side: int


@dataclass(frozen=True)
class ErrorBounds:
    """Distances in ulp. Careful implementations stay within the budgets. The arithmetic guarantees the bounds."""

    norm_budget: float
    clip_budget: float
    norm_bound: float
    clip_bound: float


@dataclass(frozen=True)
class Prediction:
    """The expected result of each gradient, with the norms and the error bounds."""

    #: One entry for each gradient. It is None for a missing gradient, or if no finite result is expected.
    gradients: tuple[ExpectedArray | None, ...]
    #: For each gradient, the norm by which it is clipped, or None if this norm is not finite.
    norms: tuple[Enclosure | None, ...]
    #: For each gradient, whether its norm is so near the threshold that a rounding error decides the branch.
    near: tuple[bool, ...]
    #: For each gradient, the distances that its result may have.
    errors: tuple[ErrorBounds, ...]
    #: A cache for `measure`, because many gradients, and the answers of many entry points, are equal.
    measured: dict[tuple[object, ...], Any] = field(default_factory=dict, compare=False, repr=False)

    @property
    def widest(self) -> ErrorBounds:
        """The largest of each error over all gradients."""
        names = [one.name for one in fields(ErrorBounds)]
        return ErrorBounds(*(max((getattr(one, name) for one in self.errors), default=0.0) for name in names))


def list_finite_integers(tensor: DyadicArray) -> list[int] | LongIntegers:
    """Return the integers of a tensor that is finite.

    Raises
    ------
    ValueError
        If an element is NaN or infinite.
    """
    if tensor.special:
        message = f"the oracle was given {sorted(map(str, tensor.special.values()))}; judge non-finite gradients apart"
        raise ValueError(message)
    return tensor.integers


def convert_threshold(threshold: float | Fraction) -> Fraction:
    """Return the threshold as a fraction.

    Raises
    ------
    ValueError
        If it is NaN or infinite.
    """
    if isinstance(threshold, float) and not math.isfinite(threshold):
        message = f"the oracle was given the threshold {threshold!r}; give a finite number"
        raise ValueError(message)
    return Fraction(threshold)


def clip_by_factor(
    tensors: Sequence[DyadicArray | None],
    included: Sequence[bool],
    bounds: Enclosure,
    side: int,
    factor: Fraction,
) -> Clipped:
    """Build the expected result, in which the included gradients are multiplied by `factor`."""
    gradients = tuple(
        None if tensor is None else ExpectedArray(tensor, factor if flag else ONE)
        for tensor, flag in zip(tensors, included, strict=True)
    )
    return Clipped(gradients, bounds, side)
