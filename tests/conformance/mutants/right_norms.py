"""Compute the norm over all elements of some tensors in many right ways.

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


@_register
def long_double(tensors: Sequence[Array]) -> float:
    """Square in the platform's widest format, whose exponent range holds the squares of every float64."""
    return float(np.sqrt(sum((np.sum(np.square(t.astype(np.longdouble))) for t in tensors), np.longdouble(0))))


@_register
def exact_sum(tensors: Sequence[Array]) -> float:
    """Scale by a power of two and add the squares without rounding."""

    def compute_finite(values: Array) -> float:
        exponent = math.frexp(float(np.max(np.abs(values), initial=0.0)))[1]
        return multiply_by_power_of_two(math.sqrt(math.fsum(np.square(np.ldexp(values, -exponent)))), exponent)

    return _guard(tensors, compute_finite)


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
def dot_product(tensors: Sequence[Array]) -> float:
    """Take the dot product of the scaled elements with themselves."""

    def compute_finite(values: Array) -> float:
        exponent = math.frexp(float(np.max(np.abs(values), initial=0.0)))[1]
        unit = np.ldexp(values, -exponent)
        return multiply_by_power_of_two(math.sqrt(float(unit @ unit)), exponent)

    return _guard(tensors, compute_finite)


@_register
def rows_of_blocks(tensors: Sequence[Array]) -> float:
    """Sum the squares block by block, then sum the blocks in float64."""

    def compute_finite(values: Array) -> float:
        exponent = math.frexp(float(np.max(np.abs(values), initial=0.0)))[1]
        blocks = np.pad(np.ldexp(values, -exponent), (0, -values.size % 512)).reshape(-1, 512)
        return multiply_by_power_of_two(math.sqrt(float(np.sum(np.einsum("ij,ij->i", blocks, blocks)))), exponent)

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
def largest_first(tensors: Sequence[Array]) -> float:
    """Divide by the largest magnitude in the widest format, and round once at the end."""

    def compute_finite(values: Array) -> float:
        largest = np.longdouble(np.max(np.abs(values), initial=0.0))
        if largest == 0:
            return 0.0
        return float(largest * np.sqrt(np.sum(np.square(values.astype(np.longdouble) / largest))))

    return _guard(tensors, compute_finite)


@_register
def folded(tensors: Sequence[Array]) -> float:
    """Add the tensors' sums of squares one after another."""

    def add_tensor(total: np.longdouble, tensor: Array) -> np.longdouble:
        wide = np.asarray(tensor, np.longdouble).ravel()
        return np.longdouble(total + np.vdot(wide, wide))

    return float(np.sqrt(functools.reduce(add_tensor, tensors, np.longdouble(0))))


@_register
def complex_magnitudes(tensors: Sequence[Array]) -> float:
    """Scale, put two elements into one complex number, and add the squared magnitudes."""

    def compute_finite(values: Array) -> float:
        exponent = math.frexp(float(np.max(np.abs(values), initial=0.0)))[1]
        pairs = np.pad(np.ldexp(values, -exponent), (0, values.size % 2)).view(np.complex128)
        return multiply_by_power_of_two(math.sqrt(float(np.sum(pairs.real**2 + pairs.imag**2))), exponent)

    return _guard(tensors, compute_finite)


@_register
def sorted_squares(tensors: Sequence[Array]) -> float:
    """Add the squares in ascending order."""

    def compute_finite(values: Array) -> float:
        exponent = math.frexp(float(np.max(np.abs(values), initial=0.0)))[1]
        squares = np.sort(np.square(np.ldexp(values, -exponent)))
        return multiply_by_power_of_two(math.sqrt(float(np.sum(squares))), exponent)

    return _guard(tensors, compute_finite)


@_register
def matrix_product(tensors: Sequence[Array]) -> float:
    """Multiply the scaled elements as a row by themselves as a column."""

    def compute_finite(values: Array) -> float:
        exponent = math.frexp(float(np.max(np.abs(values), initial=0.0)))[1]
        row = np.ldexp(values, -exponent).reshape(1, -1)
        return multiply_by_power_of_two(math.sqrt(float((row @ row.T).item())), exponent)

    return _guard(tensors, compute_finite)


@_register
def infinity_before_nan(tensors: Sequence[Array]) -> float:
    """Call `math.hypot` without a guard: infinity wins over NaN, as IEEE 754 says."""
    return math.hypot(*_flatten(tensors).tolist())
