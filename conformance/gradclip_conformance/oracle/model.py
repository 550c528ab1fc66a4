"""What an oracle says: the enclosure of a norm, the elements that are expected, and the non-finite ones' consequences.

Both oracles, `exact` and `arbitrary_precision`, answer in these words; they share no arithmetic.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, fields, replace
from fractions import Fraction
from typing import Any

__all__ = [
    "Clipped",
    "DyadicArray",
    "Enclosure",
    "ErrorBounds",
    "ExpectedArray",
    "Prediction",
    "clipped_by",
    "exact_threshold",
    "finite_integers",
    "nonfinite_consequence",
    "nonfinite_norm",
]


@dataclass(frozen=True)
class DyadicArray:
    """The elements of an array: `integers[i] * 2**exponent`, and beside them what integers cannot say."""

    #: 0 where the element is not finite.
    integers: list[int]
    exponent: int
    #: The sign bit of each element, that of a zero or a NaN too.
    negative: list[bool]
    #: The elements that are not finite, by their place.
    special: dict[int, float] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.integers)

    @property
    def is_finite(self) -> bool:
        """Whether no element is NaN or infinite."""
        return not self.special

    def part(self, start: int, stop: int) -> DyadicArray:
        """The elements from one place to another."""
        special = {place - start: value for place, value in self.special.items() if start <= place < stop}
        return DyadicArray(self.integers[start:stop], self.exponent, self.negative[start:stop], special)

    def fractions(self) -> list[Fraction]:
        """The elements as fractions, for arrays that are small and finite."""
        unit = Fraction(2) ** self.exponent
        return [integer * unit for integer in self.integers]


@dataclass(frozen=True)
class Enclosure:
    """An enclosure of a norm: it lies in [lower, upper], and the two are equal where it is known exactly."""

    lower: Fraction
    upper: Fraction
    #: The norm to the power of `order`, exactly, where that is known.
    power: Fraction | None = None
    order: int = 1

    @property
    def middle(self) -> Fraction:
        """The value to reckon with."""
        return (self.lower + self.upper) / 2


@dataclass(frozen=True)
class ExpectedArray:
    """The expected elements of one gradient: `values[i] * numerator / denominator`."""

    values: DyadicArray
    numerator: int = 1
    denominator: int = 1

    @property
    def is_unchanged(self) -> bool:
        """Whether the coefficient is exactly 1."""
        return self.numerator == self.denominator

    def fractions(self) -> list[Fraction]:
        """The elements as fractions; those that are not finite as 0."""
        factor = Fraction(self.numerator, self.denominator)
        return [factor * value for value in self.values.fractions()]

    def times(self, factor: Fraction) -> ExpectedArray:
        """The same, each element multiplied by `factor`."""
        product = Fraction(self.numerator, self.denominator) * factor
        return replace(self, numerator=product.numerator, denominator=product.denominator)


@dataclass(frozen=True)
class Clipped:
    """What a clip by norm is expected to give."""

    #: One entry a gradient; None where there is none.
    gradients: tuple[ExpectedArray | None, ...]
    #: The norm of the included gradients before the clip.
    norm: Enclosure
    #: The norm against the threshold: -1 below, 0 at, +1 above it.
    side: int


@dataclass(frozen=True)
class ErrorBounds:
    """Distances in ulp: budgets are what a careful implementation keeps to, bounds what the arithmetic guarantees."""

    norm_budget: float
    clip_budget: float
    norm_bound: float
    clip_bound: float


@dataclass(frozen=True)
class Prediction:
    """What is expected of each gradient; None for one whose expectation is not finite, or that does not exist."""

    gradients: tuple[ExpectedArray | None, ...]
    #: The norm over all included gradients (global norm), else that of each gradient; None where it is not finite.
    norms: tuple[Enclosure | None, ...]
    #: For each gradient, whether its norm is so near the threshold that a rounding error decides the branch.
    near: tuple[bool, ...]
    #: For each gradient, how far it may lie from what is expected.
    errors: tuple[ErrorBounds, ...]
    #: What `measure` has found already: many gradients, and many subjects' answers, are the same.
    measured: dict[tuple[object, ...], Any] = field(default_factory=dict, compare=False, repr=False)

    @property
    def widest(self) -> ErrorBounds:
        """For each of the errors, the largest of all gradients."""
        names = [one.name for one in fields(ErrorBounds)]
        return ErrorBounds(*(max((getattr(one, name) for one in self.errors), default=0.0) for name in names))


def finite_integers(tensor: DyadicArray) -> list[int]:
    """The integers of a tensor that is finite.

    Raises
    ------
    ValueError
        When an element is NaN or infinite.
    """
    if tensor.special:
        message = f"the oracle was given {sorted(map(str, tensor.special.values()))}; judge non-finite gradients apart"
        raise ValueError(message)
    return tensor.integers


def exact_threshold(threshold: float | Fraction) -> Fraction:
    """The threshold as a fraction.

    Raises
    ------
    ValueError
        When it is NaN or infinite.
    """
    if isinstance(threshold, float) and not math.isfinite(threshold):
        message = f"no gradient is expected of the threshold {threshold!r}; give a number or plus infinity"
        raise ValueError(message)
    return Fraction(threshold)


def clipped_by(
    tensors: Sequence[DyadicArray | None],
    included: Sequence[bool],
    bounds: Enclosure,
    side: int,
    factor: Fraction,
) -> Clipped:
    """Put together what is expected of norm and side, when the included gradients are multiplied by `factor`."""
    gradients = tuple(
        None
        if tensor is None
        else ExpectedArray(tensor, factor.numerator, factor.denominator)
        if flag
        else ExpectedArray(tensor)
        for tensor, flag in zip(tensors, included, strict=True)
    )
    return Clipped(gradients, bounds, side)


def nonfinite_norm(tensors: Iterable[DyadicArray]) -> float | None:
    """The norm of tensors that are not all finite: NaN where an element is, else infinity. None when all are finite."""
    values = [value for tensor in tensors for value in tensor.special.values()]
    if not values:
        return None
    return math.nan if any(math.isnan(value) for value in values) else math.inf


def nonfinite_consequence(values: DyadicArray, total: float) -> list[float]:
    """What IEEE arithmetic makes of a gradient above a finite threshold whose norm is infinite or NaN.

    An infinite norm makes the coefficient 0, which leaves zeros of finite elements, and NaN of the others; a norm that
    is NaN leaves NaN everywhere.
    """
    if math.isnan(total):
        return [math.nan] * len(values)
    zeros = [-0.0 if negative else 0.0 for negative in values.negative]
    return [math.nan if place in values.special else zero for place, zero in enumerate(zeros)]
