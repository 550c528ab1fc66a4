"""Compute the norm over all elements of some tensors in many right ways. The package `generated` has common ways.

A way is right if no square leaves the range, no sum is kept in half precision, and a norm that can be exact is exact.
Exactness matters at the threshold, where only one answer is right.
"""

from __future__ import annotations

import decimal
import functools
import math
from collections.abc import Callable, Sequence
from fractions import Fraction

import numpy as np

from .steps import Array, multiply_by_power_of_two

__all__ = ["NORMS", "Norm"]

Norm = Callable[[Sequence[Array]], float]

NORMS: dict[str, Norm] = {}


def _register(norm: Norm) -> Norm:
    NORMS[norm.__name__] = norm
    return norm


def _flatten(tensors: Sequence[Array]) -> Array:
    """Return all elements in float64, which holds the values of every dtype."""
    return np.concatenate([np.zeros(0), *(np.asarray(tensor, np.float64).reshape(-1) for tensor in tensors)])


def _guard(tensors: Sequence[Array], compute_finite: Callable[[Array], float]) -> float:
    """Return NaN or infinity if an element is NaN or infinite; compute the norm only for finite values."""
    values = _flatten(tensors)
    if np.isnan(values).any():
        return math.nan
    return compute_finite(values) if np.isfinite(values).all() else math.inf


def _scale_and_add(tensors: Sequence[Array], add_squares: Callable[[Array], float]) -> float:
    """Scale the elements by a power of two, so that no square leaves the range, and add their squares."""

    def compute_finite(values: Array) -> float:
        exponent = math.frexp(float(np.max(np.abs(values), initial=0.0)))[1]
        return multiply_by_power_of_two(math.sqrt(float(add_squares(np.ldexp(values, -exponent)))), exponent)

    return _guard(tensors, compute_finite)


def _add_blocks(unit: Array) -> float:
    """Add the squares block by block, then add the sums of the blocks."""
    blocks = np.pad(unit, (0, -unit.size % 512)).reshape(-1, 512)
    return float(np.sum(np.einsum("ij,ij->i", blocks, blocks)))


def _add_pairs(unit: Array) -> float:
    """Put two elements into one complex number, and add the squared magnitudes."""
    pairs = np.pad(unit, (0, unit.size % 2)).view(np.complex128)
    return float(np.sum(pairs.real**2 + pairs.imag**2))


#: Ways to add the squares of elements of at most 1.
SUMS: dict[str, Callable[[Array], float]] = {
    "exact_sum": lambda unit: math.fsum(unit * unit),
    "dot_product": lambda unit: unit @ unit,
    "sorted_squares": lambda unit: np.sum(np.sort(unit * unit)),
    "complex_magnitudes": _add_pairs,
    "rows_of_blocks": _add_blocks,
}
NORMS |= {name: functools.partial(_scale_and_add, add_squares=add_squares) for name, add_squares in SUMS.items()}


@_register
def long_double(tensors: Sequence[Array]) -> float:
    """Square in the platform's widest format, whose exponent range holds the squares of every float64."""
    return float(np.sqrt(sum((np.sum(np.square(t.astype(np.longdouble))) for t in tensors), np.longdouble(0))))


@_register
def hypotenuse(tensors: Sequence[Array]) -> float:
    """Call `math.hypot`, which scales by itself. It prefers infinity to NaN, so the guard is needed."""
    return _guard(tensors, lambda values: math.hypot(*values.tolist()))


@_register
def root_of_integers(tensors: Sequence[Array]) -> float:
    """Turn the elements into integers times a power of two, and take the integer root of the sum of squares."""

    def compute_finite(values: Array) -> float:
        mantissas, exponents = np.frexp(values)
        integers = [int(m) for m in np.ldexp(mantissas, 53).tolist()]
        least = int(exponents.min(initial=0)) - 53
        total = sum((n << (int(e) - 53 - least)) ** 2 for n, e in zip(integers, exponents, strict=True))
        # The root gets enough digits to be rounded like the exact root.
        shift = max(0, 64 - total.bit_length() // 2)
        root = math.isqrt(total << (2 * shift))
        exact = Fraction(root) * Fraction(2) ** (least - shift)
        return float(exact) if exact < Fraction(2) ** 1024 else math.inf

    return _guard(tensors, compute_finite)


@_register
def decimal_digits(tensors: Sequence[Array]) -> float:
    """Square and add in decimal, with 50 digits and no limit on the exponent."""

    def compute_finite(values: Array) -> float:
        with decimal.localcontext(decimal.Context(prec=50, Emin=decimal.MIN_EMIN, Emax=decimal.MAX_EMAX)):
            return float(sum((decimal.Decimal(v) ** 2 for v in values.tolist()), decimal.Decimal(0)).sqrt())

    return _guard(tensors, compute_finite)


@_register
def library_norm_of_each(tensors: Sequence[Array]) -> float:
    """Take the library's norm of each scaled tensor, and the norm of these norms."""

    def compute_finite(values: Array) -> float:
        exponent = math.frexp(float(np.max(np.abs(values), initial=0.0)))[1]
        squares = [np.linalg.norm(np.ldexp(np.asarray(t, np.longdouble), -exponent)) ** 2 for t in tensors]
        return multiply_by_power_of_two(float(np.sqrt(sum(squares, np.longdouble(0)))), exponent)

    return _guard(tensors, compute_finite)


@_register
def pairs_of_halves(tensors: Sequence[Array]) -> float:
    """Split the elements into two halves repeatedly, and add the sums of squares of the halves."""

    def add_squares(squares: Array) -> np.longdouble:
        if squares.size < 3:
            return np.longdouble(squares.sum())
        middle = squares.size // 2
        return (
            np.longdouble(add_squares(squares[:middle]) + add_squares(squares[middle:]))
            if squares.size < 4096
            else (np.longdouble(squares.sum()))
        )

    return float(np.sqrt(add_squares(np.square(_flatten(tensors).astype(np.longdouble)))))


@_register
def three_ranges(tensors: Sequence[Array]) -> float:
    """Sum large, small and medium elements separately, as old Fortran routines do, and combine the sums."""

    def compute_finite(values: Array) -> float:
        magnitudes = np.abs(values)
        parts = []
        for low, high, exponent in ((0.0, 1e-140, -600), (1e-140, 1e140, 0), (1e140, math.inf, 600)):
            chosen = np.ldexp(magnitudes[(magnitudes > low) & (magnitudes <= high)], -exponent)
            parts.append(np.ldexp(np.longdouble(np.sum(np.square(chosen))), 2 * exponent))
        return float(np.sqrt(sum(parts, np.longdouble(0))))

    return _guard(tensors, compute_finite)


@_register
def folded(tensors: Sequence[Array]) -> float:
    """Add the tensors' sums of squares one after another."""

    def add_tensor(total: np.longdouble, tensor: Array) -> np.longdouble:
        wide = np.asarray(tensor, np.longdouble).ravel()
        return np.longdouble(total + np.vdot(wide, wide))

    return float(np.sqrt(functools.reduce(add_tensor, tensors, np.longdouble(0))))


@_register
def infinity_before_nan(tensors: Sequence[Array]) -> float:
    """Call `math.hypot` without a guard: infinity wins over NaN, as IEEE 754 says."""
    return math.hypot(*_flatten(tensors).tolist())
