"""Provide range-safe arithmetic for right functions: sums of powers, quotients and bounds, each in several ways."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from .facts import Array

__all__ = ["LIMITS", "QUOTIENTS", "SUMS", "PowerSum"]


class PowerSum:
    """Add powers of magnitudes in the widest format, whose range holds the powers of every float64."""

    def __init__(self, p: float, largest: float) -> None:
        self.p, self.largest = p, largest
        self.total = np.longdouble(0)

    def prepare(self, values: Array) -> Array:
        """Return the magnitudes in the format and scale of the powers."""
        return np.abs(values.astype(np.longdouble))

    def add(self, values: Array) -> None:
        """Add the powers of the magnitudes of some elements."""
        if not values.size or self.p == math.inf:
            return
        magnitudes = self.prepare(values)
        self.total += np.sum(magnitudes * magnitudes if self.p == 2 else magnitudes ** type(self.total)(self.p))

    def take_root(self) -> float:
        """Return the norm of the elements before they were scaled."""
        return float(np.sqrt(self.total) if self.p == 2 else self.total ** (1 / type(self.total)(self.p)))

    def compute_norm(self) -> float:
        """Return the norm of all elements that were added."""
        if self.p == math.inf or self.largest == 0 or not math.isfinite(self.largest):
            return self.largest
        return self.take_root()


class ScaledByPower(PowerSum):
    """Scale by a power of two, so that no square leaves the range of float64."""

    def __init__(self, p: float, largest: float) -> None:
        super().__init__(p, largest)
        self.total = np.float64(0)
        self.exponent = math.frexp(largest)[1] if math.isfinite(largest) else 0

    def prepare(self, values: Array) -> Array:
        return np.abs(np.ldexp(values.astype(np.float64), -self.exponent))

    def take_root(self) -> float:
        with np.errstate(over="ignore"):
            return float(np.ldexp(super().take_root(), self.exponent))


class DividedByLargest(PowerSum):
    """Divide by the largest magnitude, in the widest format."""

    def prepare(self, values: Array) -> Array:
        return np.abs(values.astype(np.longdouble) / np.longdouble(self.largest or 1))

    def take_root(self) -> float:
        total = np.sqrt(self.total) if self.p == 2 else self.total ** (1 / np.longdouble(self.p))
        return float(total * np.longdouble(self.largest))


class Compensated(ScaledByPower):
    """Scale by a power of two, and add the powers without rounding."""

    def __init__(self, p: float, largest: float) -> None:
        super().__init__(p, largest)
        self.parts: list[float] = []

    def add(self, values: Array) -> None:
        if not values.size or self.p == math.inf:
            return
        magnitudes = self.prepare(values)
        powers = magnitudes * magnitudes if self.p == 2 else magnitudes**self.p
        self.parts.append(math.fsum(powers.reshape(-1)))

    def take_root(self) -> float:
        self.total = np.float64(math.fsum(self.parts))
        return super().take_root()


SUMS: dict[str, type[PowerSum]] = {
    "wide": PowerSum,
    "powers": ScaledByPower,
    "divided": DividedByLargest,
    "exact": Compensated,
}


def multiply_by_coefficient(values: Array, coefficient: float | np.longdouble) -> Array:
    """Multiply in the widest format."""
    return np.asarray(values.astype(np.longdouble) * coefficient).astype(values.dtype)


#: Ways to compute c / n in the widest format, where it neither overflows nor underflows.
QUOTIENTS: dict[str, Callable[[float, float], np.longdouble]] = {
    "quotient": lambda c, n: np.longdouble(c) / np.longdouble(n),
    "reciprocal": lambda c, n: np.longdouble(c) * (1 / np.longdouble(n)),
}


def clip_by_library(values: Array, low: float, high: float) -> Array:
    """Call the library's function."""
    return np.asarray(np.clip(values, low, high))


def clip_by_extremes(values: Array, low: float, high: float) -> Array:
    """Take the maximum with the lower bound, then the minimum with the upper one."""
    return np.asarray(np.minimum(np.maximum(values, values.dtype.type(low)), values.dtype.type(high)))


def clip_by_where(values: Array, low: float, high: float) -> Array:
    """Select by comparisons, which are false for NaN."""
    kind = values.dtype.type
    return np.where(values > high, kind(high), np.where(values < low, kind(low), values))


def clip_by_mask(values: Array, low: float, high: float) -> Array:
    """Copy, and overwrite the elements beyond the bounds."""
    result = values.copy()
    result[values < low] = low
    result[values > high] = high
    return result


LIMITS: dict[str, Callable[[Array, float, float], Array]] = {
    "builtin": clip_by_library,
    "extremes": clip_by_extremes,
    "where": clip_by_where,
    "mask": clip_by_mask,
}
