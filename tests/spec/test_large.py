"""Check the error bounds of norms and elements on adversarial inputs, by comparison with exact sums.

Inputs of a million elements take minutes, and those of 100,000,000 take about 3 GB. GRADCLIP_DEEP=1 runs them.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from gradclip_spec import clip_by_global_norm

#: For each dtype: the bits of its significand, its smallest normal exponent, the error budget of the norm in ulp.
FORMATS = {
    "float16": (11, -13, 0.51),
    "bfloat16": (8, -125, 0.51),
    "float32": (24, -125, 0.51),
    "float64": (53, -1021, 1.0),
}
#: The error budgets of elements with compiled and with plain loops.
BUDGETS = {"compiled": 0.51, "plain": 1.5}
#: Whether NumPy has a float wider than float64 for expected elements.
EXTENDED = np.finfo(np.longdouble).nmant >= 63
ROW = 256
PIECE = 1 << 20


def draw_normal(size: int) -> np.ndarray[Any, Any]:
    """Return standard normal numbers, which resemble gradients."""
    return np.random.default_rng(size).standard_normal(size)


def make_rows_alike(size: int) -> np.ndarray[Any, Any]:
    """Return rows that each repeat one number, so that rounding errors add up."""
    return np.repeat(np.random.default_rng(1).uniform(0.5, 2, -(-size // ROW)), ROW)[:size]


def make_every_so_many_rows(period: int) -> Callable[[int], np.ndarray[Any, Any]]:
    """Return a function that makes one ordinary row in each period. The other rows repeat one number."""

    def make(size: int) -> np.ndarray[Any, Any]:
        return np.where(np.arange(size) // ROW % period, 1.6719811, draw_normal(size))

    return make


INPUTS: dict[str, Callable[[int], np.ndarray[Any, Any]]] = {
    "normal": draw_normal,
    "sorted": lambda size: np.sort(draw_normal(size)),
    "constant": lambda size: np.full(size, 0.1),
    "one sign's noise": lambda size: 1.6719811 + 1e-6 * draw_normal(size),
    "signs": lambda size: 0.001 * np.sign(draw_normal(size)),
    "rows alike": make_rows_alike,
    **{f"one row in {period}": make_every_so_many_rows(period) for period in (3, 4, 9, 16, 17, 23, 33)},
    "geometric series": lambda size: np.exp(-np.arange(size) * (9 / size)),
    # Each later square is below half of the last place of the first one, so a sum in order loses all of them.
    "swamped": lambda size: np.where(np.arange(size) == 0, 1.0, 0.99 * 2.0**-27),
    "swamped in the middle": lambda size: np.where(np.arange(size) == size // 2, 1.0, 0.99 * 2.0**-27),
    # Each square is just above half of the last place of the sum of all earlier squares.
    "rounded up": lambda size: np.where(np.arange(size) == 0, 1.0, 1.01 * 2.0**-26.5),
    "large and small": lambda size: np.where(np.arange(size) % 2, 1e4, 1e-4),
    # The rounding errors of the other rows do not cancel those of the heavy row.
    "one heavy row": lambda size: np.where(np.arange(size) // ROW == 4, 1.5e4, draw_normal(size)),
    "one large": lambda size: np.where(np.arange(size) == size // 3, 6e4, 1e-2),
}


def sum_squares(x: np.ndarray[Any, Any]) -> Fraction:
    """Return the sum of the squares, each computed as two float64 parts, with a relative error of about 2**-95."""
    total = Fraction(0)
    for start in range(0, x.size, PIECE):
        wide = x[start : start + PIECE].astype(np.float64)
        # Dekker's product: the square and its rounding error.
        high = wide * (2.0**27 + 1)
        high -= high - wide
        low = wide - high
        squares = wide * wide
        errors = float(np.sum(((high * high - squares) + 2 * high * low) + low * low))
        # Add the second half to the first until one number is left. Knuth's sum gives the error of each addition.
        while squares.size > 1:
            if squares.size % 2:
                squares = np.append(squares, 0.0)
            one, other = np.split(squares, 2)
            squares = one + other
            virtual = squares - one
            errors += float(np.sum((one - (squares - virtual)) + (other - virtual)))
        total += Fraction(float(squares[0])) + Fraction(errors)
    return total


def measure_in_ulp(got: np.ndarray[Any, Any], expected: np.ndarray[Any, Any], dtype: str) -> float:
    """Return the largest distance from more precise values, in units of the last place of a dtype."""
    precision, smallest, _ = FORMATS[dtype]
    places = np.maximum(np.frexp(expected)[1], smallest) - precision
    return float(np.max(np.abs(np.ldexp(got.astype(expected.dtype) - expected, -places)), initial=0.0))


def check(backend: Any, values: np.ndarray[Any, Any], dtype: str, loops: str) -> None:
    """Assert that the norm and all elements are within their budgets."""
    __tracebackhide__ = True
    given = backend.array(values, dtype)
    del values
    before = backend.read(given).copy()
    square = sum_squares(before)
    norm = Fraction(math.isqrt(int(square * 2**200)), 2**100)
    threshold = float(norm) * 0.3
    clipped, total = clip_by_global_norm([given], threshold, inplace=backend.writeable)
    wide = "float64" if dtype == "float64" else "float32"

    place = Fraction(2) ** (math.frexp(float(norm))[1] - FORMATS[wide][0])
    error = float(abs(Fraction(float(backend.read(total))) - norm) / place)
    assert error <= FORMATS[wide][2], f"the norm is off by {error:.3f} ulp"
    if dtype == "float64" and not EXTENDED:
        return
    after = backend.read(clipped[0])
    more = np.longdouble if dtype == "float64" else np.float64
    exact = more(float(norm)) + more(float(norm - Fraction(float(norm))))
    for start in range(0, before.size, PIECE):
        expected = before[start : start + PIECE].astype(more) * more(threshold) / exact
        error = measure_in_ulp(after[start : start + PIECE], expected, dtype)
        assert error <= BUDGETS[loops], f"elements from {start} on are off by {error:.3f} ulp"


@pytest.mark.only_where(lambda backend: backend.name.startswith(("numpy", "torch")))
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32"])
def test_few_elements_in_many_arrays_are_precise_in_plain_loops(backend: Any, dtype: str, use_loops: Any) -> None:
    use_loops("plain")
    arrays = [backend.array(x, dtype) for x in np.split(draw_normal(400), 40)]
    before = np.concatenate([backend.read(x) for x in arrays]).astype(np.float64)

    clipped = clip_by_global_norm(arrays, 7.3)[0]

    after = np.concatenate([backend.read(x) for x in clipped])
    assert measure_in_ulp(after, before * (7.3 / math.sqrt(math.fsum(before**2))), dtype) <= BUDGETS["compiled"]


#: The numbers of elements. The first is a little more than two chunks. GRADCLIP_DEEP=1 takes the others, too.
SIZES = [(1 << 17) + 77, (1 << 20) + 77, 100_000_000]
#: The inputs of the largest size.
CHOSEN = ["normal", "constant", "rows alike", "swamped", "rounded up", "geometric series"]


@pytest.mark.thorough(sample=8)
@pytest.mark.only_where(lambda size: size == SIZES[0] or "GRADCLIP_DEEP" in os.environ)
@pytest.mark.only_where(lambda kind, size: size < SIZES[-1] or kind in CHOSEN)
# The reference has special code for large arrays of these libraries.
@pytest.mark.parametrize("backend", ["numpy", "torch"], indirect=True)
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("loops", ["compiled", "plain"])
@pytest.mark.parametrize("kind", list(INPUTS))
@pytest.mark.parametrize("dtype", list(FORMATS))
def test_errors_are_within_the_budgets(
    backend: Any, dtype: str, kind: str, loops: str, size: int, use_loops: Any
) -> None:
    use_loops(loops)
    check(backend, INPUTS[kind](size), dtype, loops)


@pytest.mark.parametrize("inplace", [False, True])
@pytest.mark.parametrize("norm_type", [2, math.inf])
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_long_arrays_of_the_other_byte_order_are_as_precise(dtype: str, norm_type: float, inplace: bool) -> None:
    arrays = [x.astype(dtype) for x in np.split(draw_normal(40_000), 5)]
    swapped = [x.astype(x.dtype.newbyteorder("S")) for x in arrays]

    clipped = clip_by_global_norm(swapped, 0.3, norm_type=norm_type, inplace=inplace)[0]

    for got, expected in zip(clipped, clip_by_global_norm(arrays, 0.3, norm_type=norm_type)[0], strict=True):
        assert got.dtype == expected.dtype.newbyteorder("S")
        assert measure_in_ulp(got, expected, dtype) <= sum(BUDGETS.values())
