"""The norm over all elements of some tensors, in many right ways.

Right means: no square leaves the range, no sum is kept in half precision, and a norm that is exact comes out exact, so
that the comparison with the threshold is right where only one answer is.
"""

from __future__ import annotations

import decimal
import functools
import math
from collections.abc import Callable, Sequence
from fractions import Fraction

import numpy as np

from .steps import Array, times_power_of_two

__all__ = ["NORMS", "Norm"]

Norm = Callable[[Sequence[Array]], float]

NORMS: dict[str, Norm] = {}


def _kept(norm: Norm) -> Norm:
    NORMS[norm.__name__] = norm
    return norm


def _flat(tensors: Sequence[Array]) -> Array:
    """All elements, as float64, which holds those of every dtype."""
    return np.concatenate([np.zeros(0), *(np.asarray(tensor, np.float64).reshape(-1) for tensor in tensors)])


def _guarded(tensors: Sequence[Array], finite: Callable[[Array], float]) -> float:
    """What is not finite decides the norm alone."""
    values = _flat(tensors)
    if np.isnan(values).any():
        return math.nan
    return finite(values) if np.isfinite(values).all() else math.inf


@_kept
def long_double(tensors: Sequence[Array]) -> float:
    """Squares in the platform's widest format, whose exponents hold the squares of every float64."""
    return float(np.sqrt(sum((np.sum(np.square(t.astype(np.longdouble))) for t in tensors), np.longdouble(0))))


@_kept
def exact_sum(tensors: Sequence[Array]) -> float:
    """Scales by a power of two and adds the squares up without rounding."""

    def finite(values: Array) -> float:
        exponent = math.frexp(float(np.max(np.abs(values), initial=0.0)))[1]
        return times_power_of_two(math.sqrt(math.fsum(np.square(np.ldexp(values, -exponent)))), exponent)

    return _guarded(tensors, finite)


@_kept
def hypotenuse(tensors: Sequence[Array]) -> float:
    """Leaves it all to `math.hypot`, which scales by itself; only it prefers infinity to NaN."""
    return _guarded(tensors, lambda values: math.hypot(*values.tolist()))


@_kept
def root_of_integers(tensors: Sequence[Array]) -> float:
    """Takes the elements for integers times a power of two, and the integer root of their squares' sum."""

    def finite(values: Array) -> float:
        mantissas, exponents = np.frexp(values)
        integers = [int(m) for m in np.ldexp(mantissas, 53).tolist()]
        least = int(exponents.min(initial=0)) - 53
        total = sum((n << (int(e) - 53 - least)) ** 2 for n, e in zip(integers, exponents, strict=True))
        # Digits enough for the root to round as it would without end.
        shift = max(0, 64 - total.bit_length() // 2)
        root = math.isqrt(total << (2 * shift))
        exact = Fraction(root) * Fraction(2) ** (least - shift)
        return float(exact) if exact < Fraction(2) ** 1024 else math.inf

    return _guarded(tensors, finite)


@_kept
def decimal_digits(tensors: Sequence[Array]) -> float:
    """Squares and adds in decimal, with more digits than binary ones need."""

    def finite(values: Array) -> float:
        with decimal.localcontext(decimal.Context(prec=50, Emin=decimal.MIN_EMIN, Emax=decimal.MAX_EMAX)):
            return float(sum((decimal.Decimal(v) ** 2 for v in values.tolist()), decimal.Decimal(0)).sqrt())

    return _guarded(tensors, finite)


@_kept
def library_norm_of_each(tensors: Sequence[Array]) -> float:
    """The library's norm of each tensor, scaled by a power of two, and the norm of these; one tensor is not rounded."""

    def finite(values: Array) -> float:
        exponent = math.frexp(float(np.max(np.abs(values), initial=0.0)))[1]
        squares = [np.linalg.norm(np.ldexp(np.asarray(t, np.longdouble), -exponent)) ** 2 for t in tensors]
        return times_power_of_two(float(np.sqrt(sum(squares, np.longdouble(0)))), exponent)

    return _guarded(tensors, finite)


@_kept
def dot_product(tensors: Sequence[Array]) -> float:
    """The dot product of the scaled elements with themselves."""

    def finite(values: Array) -> float:
        exponent = math.frexp(float(np.max(np.abs(values), initial=0.0)))[1]
        unit = np.ldexp(values, -exponent)
        return times_power_of_two(math.sqrt(float(unit @ unit)), exponent)

    return _guarded(tensors, finite)


@_kept
def rows_of_blocks(tensors: Sequence[Array]) -> float:
    """Sums squares block by block, and the blocks' sums in float64."""

    def finite(values: Array) -> float:
        exponent = math.frexp(float(np.max(np.abs(values), initial=0.0)))[1]
        blocks = np.pad(np.ldexp(values, -exponent), (0, -values.size % 512)).reshape(-1, 512)
        return times_power_of_two(math.sqrt(float(np.sum(np.einsum("ij,ij->i", blocks, blocks)))), exponent)

    return _guarded(tensors, finite)


@_kept
def pairs_of_halves(tensors: Sequence[Array]) -> float:
    """Halves the elements again and again, and adds the halves' sums of squares."""

    def total(squares: Array) -> np.longdouble:
        if squares.size < 3:
            return np.longdouble(squares.sum())
        middle = squares.size // 2
        return (
            np.longdouble(total(squares[:middle]) + total(squares[middle:]))
            if squares.size < 4096
            else (np.longdouble(squares.sum()))
        )

    return float(np.sqrt(total(np.square(_flat(tensors).astype(np.longdouble)))))


@_kept
def three_ranges(tensors: Sequence[Array]) -> float:
    """Sums large, small and middling elements apart, as old Fortran does, and puts the sums together."""

    def finite(values: Array) -> float:
        magnitudes = np.abs(values)
        parts = []
        for low, high, exponent in ((0.0, 1e-140, -600), (1e-140, 1e140, 0), (1e140, math.inf, 600)):
            chosen = np.ldexp(magnitudes[(magnitudes > low) & (magnitudes <= high)], -exponent)
            parts.append(np.ldexp(np.longdouble(np.sum(np.square(chosen))), 2 * exponent))
        return float(np.sqrt(sum(parts, np.longdouble(0))))

    return _guarded(tensors, finite)


@_kept
def largest_first(tensors: Sequence[Array]) -> float:
    """Divides by the largest magnitude, in the widest format, and rounds once in the end."""

    def finite(values: Array) -> float:
        largest = np.longdouble(np.max(np.abs(values), initial=0.0))
        if largest == 0:
            return 0.0
        return float(largest * np.sqrt(np.sum(np.square(values.astype(np.longdouble) / largest))))

    return _guarded(tensors, finite)


@_kept
def folded(tensors: Sequence[Array]) -> float:
    """Folds the tensors' sums of squares one after another."""

    def step(total: np.longdouble, tensor: Array) -> np.longdouble:
        wide = np.asarray(tensor, np.longdouble).ravel()
        return np.longdouble(total + np.vdot(wide, wide))

    return float(np.sqrt(functools.reduce(step, tensors, np.longdouble(0))))


@_kept
def complex_magnitudes(tensors: Sequence[Array]) -> float:
    """Scales, puts two elements into one complex number, and adds their squared magnitudes."""

    def finite(values: Array) -> float:
        exponent = math.frexp(float(np.max(np.abs(values), initial=0.0)))[1]
        pairs = np.pad(np.ldexp(values, -exponent), (0, values.size % 2)).view(np.complex128)
        return times_power_of_two(math.sqrt(float(np.sum(pairs.real**2 + pairs.imag**2))), exponent)

    return _guarded(tensors, finite)


@_kept
def sorted_squares(tensors: Sequence[Array]) -> float:
    """Adds the squares up from the smallest on."""

    def finite(values: Array) -> float:
        exponent = math.frexp(float(np.max(np.abs(values), initial=0.0)))[1]
        squares = np.sort(np.square(np.ldexp(values, -exponent)))
        return times_power_of_two(math.sqrt(float(np.sum(squares))), exponent)

    return _guarded(tensors, finite)


@_kept
def matrix_product(tensors: Sequence[Array]) -> float:
    """The one element of the row times the column, by integers where they are small, else as before."""

    def finite(values: Array) -> float:
        exponent = math.frexp(float(np.max(np.abs(values), initial=0.0)))[1]
        row = np.ldexp(values, -exponent).reshape(1, -1)
        return times_power_of_two(math.sqrt(float((row @ row.T).item())), exponent)

    return _guarded(tensors, finite)
