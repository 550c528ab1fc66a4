"""What an oracle says: the enclosure of a norm, the elements that are expected, and the non-finite ones' consequences.

Both oracles, `exact` and `arbitrary_precision`, answer in these words; they share no arithmetic.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

from .formats import Exact, Format, float_quotient, ulp

__all__ = [
    "PLAIN",
    "Bounds",
    "Clipped",
    "Expected",
    "clipped_by",
    "exact_threshold",
    "finite_integers",
    "nonfinite_consequence",
    "nonfinite_norm",
    "ulps_from_threshold",
]

#: The neutral rule: `c * X / norm(X)` above the threshold, `X` otherwise.
PLAIN: Mapping[str, Any] = {"kind": "plain"}


@dataclass(frozen=True)
class Bounds:
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
class Expected:
    """The expected elements of one gradient: `values[i] * numerator / denominator`."""

    values: Exact
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

    def times(self, factor: Fraction) -> Expected:
        """The same, each element multiplied by `factor`."""
        product = Fraction(self.numerator, self.denominator) * factor
        return replace(self, numerator=product.numerator, denominator=product.denominator)


@dataclass(frozen=True)
class Clipped:
    """What a clip by norm is expected to give."""

    #: One entry a gradient; None where there is none.
    gradients: tuple[Expected | None, ...]
    #: The norm of the included gradients before the clip.
    norm: Bounds
    #: The norm against the threshold: -1 below, 0 at, +1 above it.
    side: int


def finite_integers(tensor: Exact) -> list[int]:
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


def ulps_from_threshold(bounds: Bounds, threshold: Fraction, form: Format) -> float:
    """How far the norm lies from the threshold, in ulp of the format at the threshold."""
    return float_quotient(abs(bounds.middle - threshold), ulp(threshold, form))


def clipped_by(
    tensors: Sequence[Exact | None],
    included: Sequence[bool],
    bounds: Bounds,
    side: int,
    factor: Fraction,
) -> Clipped:
    """Put together what is expected of norm and side, when the included gradients are multiplied by `factor`."""
    gradients = tuple(
        None if tensor is None else Expected(tensor, factor.numerator, factor.denominator) if flag else Expected(tensor)
        for tensor, flag in zip(tensors, included, strict=True)
    )
    return Clipped(gradients, bounds, side)


def nonfinite_norm(tensors: Iterable[Exact]) -> float | None:
    """The norm of tensors that are not all finite: NaN where an element is, else infinity. None when all are finite."""
    values = [value for tensor in tensors for value in tensor.special.values()]
    if not values:
        return None
    return math.nan if any(math.isnan(value) for value in values) else math.inf


def nonfinite_consequence(values: Exact, total: float) -> list[float]:
    """What IEEE arithmetic makes of a gradient above a finite threshold whose norm is infinite or NaN.

    An infinite norm makes the coefficient 0, which leaves zeros of finite elements, and NaN of the others; a norm that
    is NaN leaves NaN everywhere.
    """
    if math.isnan(total):
        return [math.nan] * len(values)
    zeros = [-0.0 if negative else 0.0 for negative in values.negative]
    return [math.nan if place in values.special else zero for place, zero in enumerate(zeros)]
