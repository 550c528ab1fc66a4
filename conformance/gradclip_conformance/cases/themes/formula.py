"""Make cases of the formulas: above, below and at the threshold, orders of the norm, and the returned norm.

The numbers are small integers times powers of two. They are exact in every dtype, and so are their norms: the norm of 3
and 4 is 5, and the norm of 2, 4 and 4 is 6. So only the arithmetic under test can be wrong.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from gradclip_adapters.contract import Array, Gradient

from ...oracle.formats import FORMATS, decode_doubles, next_down, next_up
from .. import derivatives
from ..build import DTYPES, NORM_OPERATIONS, list_digits, make_case, make_tensor, round_to_tensor
from ..model import Case, expect

__all__ = ["make_cases"]

#: Orders of the norm that is returned, other than the Euclidean one.
NORM_TYPES = {"p-one": 1.0, "infinity": math.inf, "p-three": 3.0, "p-half": 0.5, "p-three-halves": 1.5}

#: Places in a long array: where vectors, blocks and chunks of common sizes begin or end, and at the end of the array.
EDGES = [0, 31, 4095, 4096, 16384, 32767, 65535, 65536, 65537, 69999, 70000]

#: Lengths at which vectors and blocks of common sizes end.
LENGTHS = {
    "every-length": range(1, 33),
    "beside-powers-of-two": [2**k + i for k in range(6, 14) for i in (-1, 0, 1)],
}


def make_cases() -> Iterator[Case]:
    """Yield all cases of this theme."""
    for dtype in DTYPES:
        yield from _make_value_cases(dtype)
        for operation in NORM_OPERATIONS:
            yield from _make_norm_cases(operation, dtype)
            yield from _ask_other_norms(operation, dtype)
        yield from _clip_one_tensor_at_a_time(dtype)
        yield from _take_norms_over_axes(dtype)
        yield from _clip_all_together(dtype)
        yield from _ask_returned_norm(dtype)
    yield from _ask_every_number()
    yield from derivatives.make_cases()


def _make_value_cases(dtype: str) -> Iterator[Case]:
    spread = [-3.0, -1.0, -0.5, 0.0, 0.5, 1.0, 3.0]
    yield make_case("value.bounds", "max-only", dtype, [make_tensor(spread, dtype)], {"max": 1.0}, expect("values"))
    yield make_case(
        "value.bounds", "min-and-max", dtype, [make_tensor(spread, dtype)], {"min": -0.5, "max": 2.0}, expect("values")
    )
    yield make_case(
        "value.bounds",
        "positive-range",
        dtype,
        [make_tensor(spread, dtype)],
        {"min": 0.25, "max": 0.75},
        expect("values"),
    )
    # A function may mistake a bound of 0 for a missing bound, or may assume that 0 lies between the bounds.
    for name, low, high in (("min-zero", 0.0, 2.0), ("max-zero", -1.0, 0.0), ("negative-range", -2.0, -0.75)):
        yield make_case(
            "value.bounds", name, dtype, [make_tensor(spread, dtype)], {"min": low, "max": high}, expect("values")
        )
    tiny, huge = (2.0**-12, 2.0**12) if dtype == "float16" else (2.0**-64, 2.0**64)
    subnormal = 16 * float(FORMATS[dtype].smallest_subnormal)
    for name, unit in (("tiny", tiny), ("huge", huge), ("subnormal", subnormal)):
        scaled, bounds = [value * unit for value in spread], {"min": -0.75 * unit, "max": 2.0 * unit}
        yield make_case("value.bounds", name, dtype, [make_tensor(scaled, dtype)], bounds, expect("values"))
    # A narrower dtype cannot represent these bounds.
    low, high = list_digits(dtype)[7], list_digits(dtype)[8]
    yield make_case(
        "value.bounds", "every-digit", dtype, [make_tensor(spread, dtype)], {"min": low, "max": high}, expect("values")
    )
    yield make_case(
        "value.bounds",
        "equal-bounds",
        dtype,
        [make_tensor(spread, dtype)],
        {"min": 0.75, "max": 0.75},
        expect("values"),
    )
    if dtype == "float32":
        yield make_case("value.bounds", "every-shape", dtype, _make_every_shape(dtype), {"max": 1.5}, expect("values"))
        for name, lengths in LENGTHS.items():
            yield make_case("value.bounds", name, dtype, _make_lengths(lengths, dtype), {"max": 1.5}, expect("values"))
    yield make_case(
        "value.bounds", "three-and-four-dimensional", dtype, _make_deep(dtype), {"max": 1.5}, expect("values")
    )
    # In float32 the length exceeds 2**16.
    uneven = [_make_uneven_length(dtype, 26_217 if dtype == "float32" else 203)]
    yield make_case("value.bounds", "uneven-length", dtype, uneven, {"max": 1.5}, expect("values"))
    # With bounds of equal magnitude, no result shows which bound was used.
    matrix, scalar = make_tensor(spread[:6], dtype, (2, 3)), make_tensor(spread[:1], dtype, ())
    forms = [matrix, scalar, *_make_deep(dtype), _make_uneven_length(dtype, 203)]
    yield make_case(
        "value.bounds", "min-and-max-of-every-form", dtype, forms, {"min": -0.5, "max": 2.0}, expect("values")
    )
    yield from _ask_one_bound(dtype, spread, forms)
    two = [make_tensor([8.0, -8.0, 0.125], dtype), make_tensor([0.5, 2.0, -2.0, 1.5], dtype, (2, 2))]
    yield make_case("value.bounds", "two-tensors", dtype, two, {"min": -1.0, "max": 1.0}, expect("values"))
    inside = [make_tensor([-0.0, 0.0, 1.5, -2.0, 4.0, -4.0], dtype)]
    yield make_case(
        "value.inside-unchanged", "max-only", dtype, inside, {"max": 4.0}, expect("untouched", indices=(0,))
    )
    yield make_case(
        "value.inside-unchanged",
        "min-and-max",
        dtype,
        inside,
        {"min": -4.0, "max": 4.0},
        expect("untouched", indices=(0,)),
    )
    digits = [make_tensor(list_digits(dtype), dtype)]
    yield make_case(
        "value.inside-unchanged",
        "every-digit",
        dtype,
        digits,
        {"min": -2.0, "max": 2.0},
        expect("untouched", indices=(0,)),
    )
    long = [round_to_tensor(np.tile(list_digits(dtype), 45), dtype)]
    yield make_case(
        "value.inside-unchanged", "every-digit-long", dtype, long, {"max": 2.0}, expect("untouched", indices=(0,))
    )
    below = [make_tensor([-3.0, -2.0, -1.0, 3.0], dtype)]
    yield make_case("value.min-defaults-to-minus-max", "below-minus-max", dtype, below, {"max": 2.0}, expect("values"))


def _ask_one_bound(dtype: str, spread: list[float], forms: list[Gradient]) -> Iterator[Case]:
    """Pass only one bound, because some functions take only one. Also pass two bounds of which only one is active."""
    rule, tiny, huge = "value.bounds", 2.0**-12, 2.0**12
    if dtype != "float16":
        tiny, huge = 2.0**-64, 2.0**64
    subnormal, digit = float(FORMATS[dtype].smallest_subnormal), abs(list_digits(dtype)[7])
    for name, values, bound in (
        ("tiny-max-only", [value * tiny for value in spread], 0.75 * tiny),
        ("huge-max-only", [value * huge for value in spread], 0.75 * huge),
        ("subnormal-max-only", [16 * value * subnormal for value in spread], 12 * subnormal),
        ("normal-to-subnormal", spread, 3 * subnormal),
        ("every-digit-max-only", spread, digit),
        ("largest", [float(FORMATS[dtype].largest), -float(FORMATS[dtype].largest), 1.0], 2 * digit),
    ):
        yield make_case(rule, name, dtype, [make_tensor(values, dtype)], {"max": bound}, expect("values"))
    yield make_case(rule, "max-only-of-every-form", dtype, forms, {"max": 0.75}, expect("values"))
    for name, low, high in (("only-max-active", -8.0, 0.75), ("only-min-active", -0.75, 8.0)):
        yield make_case(rule, name, dtype, [make_tensor(spread, dtype)], {"min": low, "max": high}, expect("values"))
    yield make_case(
        rule,
        "normal-to-subnormal-min-and-max",
        dtype,
        [make_tensor(spread, dtype)],
        {"min": -2 * subnormal, "max": 3 * subnormal},
        expect("values"),
    )
    if dtype != "float64":
        yield from _ask_rounded_bounds(dtype, spread)


def _ask_rounded_bounds(dtype: str, spread: list[float]) -> Iterator[Case]:
    """Pass bounds that the dtype cannot represent: between two of its numbers, or beyond the largest."""
    rule, largest = "value.bounds-rounded", float(FORMATS[dtype].largest)
    for name, bounds in (
        ("tenth", {"max": 0.1}),
        ("tenth-and-two-thirds", {"min": -2 / 3, "max": 0.1}),
        ("beyond-the-range", {"max": 4 * largest}),
        ("below-the-subnormal", {"max": float(FORMATS[dtype].smallest_subnormal) / 4}),
    ):
        yield make_case(rule, name, dtype, [make_tensor(spread, dtype)], bounds, expect("rounded-bounds"))
    wide = "float64" if dtype == "float32" else "float32"
    # The wider of the two dtypes represents the bound.
    bound = 0.5 + 2.0**-15 if dtype != "float32" else 0.5 + 2.0**-30
    for first, second in ((dtype, wide), (wide, dtype)):
        mixed = [make_tensor(spread, first), make_tensor(spread, second)]
        yield make_case(rule, "narrowest-of-two", f"{first}+{second}", mixed, {"max": bound}, expect("rounded-bounds"))


def _make_norm_cases(operation: str, dtype: str) -> Iterator[Case]:
    above, below = f"{operation}.scaled-above", f"{operation}.identity-below"
    triangle = [make_tensor([3.0, 4.0], dtype)]
    # For elements of this size, an epsilon of 1e-6 added to the norm changes the result in every dtype. Their squares
    # are still exact.
    small = 2.0**-12 if dtype == "float16" else 2.0**-18
    yield make_case(above, "three-four-five", dtype, triangle, {"clip_norm": 1.0}, expect("values"))
    yield make_case(above, "by-half", dtype, triangle, {"clip_norm": 2.5}, expect("values"))
    yield make_case(
        above, "far-above", dtype, [make_tensor([96.0, -128.0], dtype)], {"clip_norm": 0.125}, expect("values")
    )
    # The products with clip_norm are normal numbers. Another rule, about the range, covers subnormal ones.
    unit = 2.0**-8 if dtype == "float16" else small
    yield make_case(
        above, "small", dtype, [make_tensor([3 * unit, 4 * unit], dtype)], {"clip_norm": 2.5 * unit}, expect("values")
    )
    yield make_case(
        above,
        "matrix",
        dtype,
        [make_tensor([2.0, -4.0, 0.0, 0.0, 4.0, 0.0], dtype, (2, 3))],
        {"clip_norm": 2.0},
        expect("values"),
    )
    yield make_case(
        above,
        "uneven",
        dtype,
        [make_tensor([1.0, -2.0, 3.0, -4.0, 5.0, -6.0, 7.0], dtype)],
        {"clip_norm": 2.0},
        expect("values"),
    )
    yield make_case(above, "three-and-four-dimensional", dtype, _make_deep(dtype), {"clip_norm": 3.0}, expect("values"))
    yield make_case(
        above, "norm-one", dtype, [make_tensor([0.5, -0.5, 0.5, 0.5], dtype)], {"clip_norm": 0.25}, expect("values")
    )
    if dtype == "float32":
        yield make_case(above, "every-shape", dtype, _make_every_shape(dtype), {"clip_norm": 1.5}, expect("values"))
        for name, lengths in LENGTHS.items():
            yield make_case(above, name, dtype, _make_lengths(lengths, dtype), {"clip_norm": 0.5}, expect("values"))
    yield make_case(below, "three-four-five", dtype, triangle, {"clip_norm": 8.0}, expect("untouched", indices=(0,)))
    yield make_case(
        below,
        "far-below",
        dtype,
        [make_tensor([-0.0, 1.0, -0.75], dtype)],
        {"clip_norm": 1024.0},
        expect("untouched", indices=(0,)),
    )
    yield make_case(
        below,
        "small",
        dtype,
        [make_tensor([3 * small, 4 * small], dtype)],
        {"clip_norm": 8 * small},
        expect("untouched", indices=(0,)),
    )
    digits = [make_tensor(list_digits(dtype), dtype)]
    yield make_case(below, "every-digit", dtype, digits, {"clip_norm": 8.0}, expect("untouched", indices=(0,)))
    yield from _leave_below_thresholds_of_digits(operation, dtype)
    if dtype in ("float32", "float64"):
        # No common block size divides this length. In half precision the error bound would hide a missing block.
        long = [round_to_tensor(np.tile([1.0, -2.0, 2.0], 3367), dtype)]
        yield make_case(above, "ten-thousand-elements", dtype, long, {"clip_norm": 1.0}, expect("values"))
    if dtype != "bfloat16":
        yield from _put_mass_at_edges(operation, dtype)
    at = f"{operation}.at-threshold"
    yield make_case(at, "three-four-five", dtype, triangle, {"clip_norm": 5.0}, expect("untouched", indices=(0,)))
    yield make_case(
        at, "one-element", dtype, [make_tensor([-0.75], dtype)], {"clip_norm": 0.75}, expect("untouched", indices=(0,))
    )
    yield make_case(
        at,
        "small",
        dtype,
        [make_tensor([3 * small, 4 * small], dtype)],
        {"clip_norm": 5 * small},
        expect("untouched", indices=(0,)),
    )
    beside = f"{operation}.neighbours-of-threshold"
    yield make_case(
        beside,
        "threshold-above",
        dtype,
        triangle,
        {"clip_norm": next_up(5.0, dtype)},
        expect("untouched", indices=(0,)),
    )
    yield make_case(beside, "threshold-below", dtype, triangle, {"clip_norm": next_down(5.0, dtype)}, expect("values"))
    # The norm and the threshold agree in half of the dtype's digits. A comparison in a narrower dtype finds them equal
    # and leaves the gradient unscaled, which is outside the error bound.
    slightly = 5.0 * (1 - 2.0 ** -(FORMATS[dtype].precision // 2))
    yield make_case(beside, "threshold-slightly-below", dtype, triangle, {"clip_norm": slightly}, expect("values"))
    if dtype in ("float32", "float64"):
        # The difference is smaller than the tolerance of functions such as `isclose`, but larger than the error bound.
        hardly = 5.0 * (1 - 2.0 ** (6 - FORMATS[dtype].precision))
        yield make_case(beside, "threshold-hardly-below", dtype, triangle, {"clip_norm": hardly}, expect("values"))


def _leave_below_thresholds_of_digits(operation: str, dtype: str) -> Iterator[Case]:
    """Pass gradients below thresholds that are not powers of two. A product with such a threshold is rounded."""
    rule, digits = f"{operation}.identity-below", make_tensor(list_digits(dtype), dtype)
    # The norm is between 7 and 8 for one tensor, and below 12 for two.
    for place in (2, 11, 20):
        threshold = abs(list_digits(dtype)[place]) * 8
        options = {"clip_norm": threshold}
        yield make_case(
            rule, f"threshold-of-digits-{place}", dtype, [digits], options, expect("untouched", indices=(0,))
        )
    both, above = [digits, make_tensor(list_digits(dtype)[::-1], dtype)], abs(list_digits(dtype)[16]) * 16
    options = {"clip_norm": above}
    yield make_case(rule, "threshold-of-digits-two-tensors", dtype, both, options, expect("untouched", indices=(0, 1)))
    # Only float64 represents this threshold. Rounded to another dtype, it is still far from the norm.
    options = {"clip_norm": 12.1}
    yield make_case(rule, "threshold-in-decimals", dtype, [digits], options, expect("untouched", indices=(0,)))


def _put_mass_at_edges(operation: str, dtype: str) -> Iterator[Case]:
    """Put the only nonzero elements where kernels cut long arrays, so that a lost part changes the result."""
    values = np.zeros(EDGES[-1] + 1)
    values[EDGES] = [(-1.0) ** k * (3 + k % 2) for k in range(len(EDGES))]
    gradients = [round_to_tensor(values, dtype)]
    for rule, threshold, kind in (
        ("scaled-above", 2.0, expect("values")),
        ("identity-below", 32.0, expect("untouched", indices=(0,))),
    ):
        yield make_case(f"{operation}.{rule}", "mass-at-edges", dtype, gradients, {"clip_norm": threshold}, kind)


def _ask_other_norms(operation: str, dtype: str) -> Iterator[Case]:
    rule = f"{operation}.p-norm"
    for name, p, values, threshold in (
        ("one", 1.0, [1.0, 2.0, -3.0], 3.0),
        ("one-between-the-norms", 1.0, [3.0, 4.0], 6.0),
        ("three", 3.0, [3.0, -4.0, 5.0], 3.0),
        ("half", 0.5, [1.0, 4.0], 3.0),
        ("three-halves", 1.5, [1.0, 4.0], 2.0),
        ("four", 4.0, [2.0, -4.0, 4.0], 3.0),
        ("three-as-an-integer", 3, [3.0, -4.0, 5.0], 3.0),
    ):
        yield make_case(
            rule, name, dtype, [make_tensor(values, dtype)], {"clip_norm": threshold, "norm_type": p}, expect("values")
        )
    between = {"clip_norm": 4.75, "norm_type": 3.0}
    yield make_case(
        rule,
        "three-between-the-norms",
        dtype,
        [make_tensor([3.0, 4.0], dtype)],
        between,
        expect("untouched", indices=(0,)),
    )
    largest = [make_tensor([1.0, -4.0, 2.0], dtype)]
    infinity = f"{operation}.infinity-norm"
    # Libraries define other norms for a matrix: the largest sum over a column or a row. Several elements share the
    # largest magnitude, so that a norm of a high order differs from the infinity norm.
    matrix = [make_tensor([4.0, -4.0, 3.0, -4.0], dtype, (2, 2))]
    yield make_case(rule, "matrix-one", dtype, matrix, {"clip_norm": 7.5, "norm_type": 1.0}, expect("values"))
    yield make_case(infinity, "matrix", dtype, matrix, {"clip_norm": 2.0, "norm_type": math.inf}, expect("values"))
    if operation == "global-norm":
        # The norm over both tensors is not the Euclidean norm of their two norms.
        uneven = [make_tensor([1.0, -4.0], dtype), make_tensor([3.0, 2.0], dtype)]
        for name, p, threshold in (
            ("two-tensors-one", 1.0, 5.0),
            ("two-tensors-three", 3.0, 2.0),
            ("two-tensors-half", 0.5, 12.0),
            ("two-tensors-three-halves", 1.5, 3.0),
            ("two-tensors-four", 4.0, 2.0),
        ):
            yield make_case(rule, name, dtype, uneven, {"clip_norm": threshold, "norm_type": p}, expect("values"))
        bounded = {"clip_norm": 4.0, "norm_type": math.inf}
        yield make_case(
            infinity, "two-tensors-at-threshold", dtype, uneven, bounded, expect("untouched", indices=(0, 1))
        )
    yield make_case(infinity, "above", dtype, largest, {"clip_norm": 2.0, "norm_type": math.inf}, expect("values"))
    yield make_case(
        infinity,
        "at-threshold",
        dtype,
        largest,
        {"clip_norm": 4.0, "norm_type": math.inf},
        expect("untouched", indices=(0,)),
    )


def _clip_one_tensor_at_a_time(dtype: str) -> Iterator[Case]:
    rule = "norm.each-tensor-alone"
    above_and_below = [make_tensor([3.0, 4.0], dtype), make_tensor([0.5, -0.25], dtype)]
    yield make_case(rule, "above-and-below", dtype, above_and_below, {"clip_norm": 1.0}, expect("values"))
    both_above = [make_tensor([6.0, 8.0], dtype), make_tensor([12.0, -16.0], dtype)]
    yield make_case(rule, "both-above", dtype, both_above, {"clip_norm": 5.0}, expect("values"))
    together_above = [make_tensor([3.0], dtype), make_tensor([4.0], dtype)]
    yield make_case(
        rule, "only-together-above", dtype, together_above, {"clip_norm": 4.5}, expect("untouched", indices=(0, 1))
    )


def _take_norms_over_axes(dtype: str) -> Iterator[Case]:
    """Take norms over some axes. Of the slices, some are clipped, some not, and some are zero."""
    matrix = make_tensor([3.0, 4.0, 0.0, 0.0, 0.5, 0.0, 0.0, 0.25, 0.0, 0.0, 0.0, 0.0], dtype, (3, 4))
    rows = [matrix, make_tensor([-6.0, 0.0, 0.0, 8.0], dtype, (1, 4))]
    values = [4.0, -0.125, 0.0, 0.0, 2.0, 0.5, -4.0, 0.0, 0.0, 0.0, 0.0, -0.5]
    block = [make_tensor(values, dtype, (2, 2, 3))]
    for name, gradients, axes in (
        ("columns", [matrix], "0"),
        ("rows", rows, "1"),
        ("last-axis", rows, "-1"),
        ("all-axes", [matrix], "0,1"),
        ("middle-axis", block, "1"),
        ("outer-axes", block, "0,2"),
    ):
        options = {"clip_norm": 2.5, "axes": axes}
        yield make_case("norm.norm-over-axes", name, dtype, gradients, options, expect("norm-over-axes"))


def _clip_all_together(dtype: str) -> Iterator[Case]:
    rule = "global-norm.one-norm-over-all"
    apart = [make_tensor([3.0], dtype), make_tensor([4.0], dtype)]
    yield make_case(rule, "two-tensors", dtype, apart, {"clip_norm": 1.0}, expect("values"))
    yield make_case(rule, "each-below-alone", dtype, apart, {"clip_norm": 4.5}, expect("values"))
    three = [
        make_tensor([2.0, 0.0], dtype),
        make_tensor([-4.0, 0.0, 0.0, 0.0], dtype, (2, 2)),
        make_tensor([4.0], dtype),
    ]
    yield make_case(rule, "three-shapes", dtype, three, {"clip_norm": 3.0}, expect("values"))
    yield make_case(rule, "at-threshold", dtype, three, {"clip_norm": 6.0}, expect("untouched", indices=(0, 1, 2)))
    yield make_case(rule, "below", dtype, three, {"clip_norm": 7.0}, expect("untouched", indices=(0, 1, 2)))
    if dtype in ("float32", "float64"):
        long_and_short = [_make_uneven_length(dtype, 203), make_tensor([1024.0], dtype)]
        yield make_case(rule, "long-and-short", dtype, long_and_short, {"clip_norm": 512.0}, expect("values"))
    for name, p, threshold in (("p-one", 1.0, 3.5), ("infinity", math.inf, 2.0), ("p-three", 3.0, 2.0)):
        options = {"clip_norm": threshold, "norm_type": p}
        yield make_case(rule, name, dtype, apart, options, expect("values"))
    uneven = [make_tensor([1.0, -4.0], dtype), make_tensor([3.0], dtype)]
    yield make_case(rule, "p-one-uneven", dtype, uneven, {"clip_norm": 3.5, "norm_type": 1.0}, expect("values"))


def _ask_returned_norm(dtype: str) -> Iterator[Case]:
    rule = "global-norm.returned-norm"
    apart = [make_tensor([3.0], dtype), make_tensor([4.0], dtype)]
    for name, threshold in (("above", 1.0), ("at-threshold", 5.0), ("below", 8.0)):
        yield make_case(rule, name, dtype, apart, {"clip_norm": threshold}, expect("returned-norm"), ["returns_norm"])
    for name, p in NORM_TYPES.items():
        options = {"clip_norm": 1.0, "norm_type": p}
        yield make_case(rule, name, dtype, apart, options, expect("returned-norm"), ["returns_norm"])
    matrix = make_tensor([2.0, -4.0, 4.0, 0.0], dtype, (2, 2))
    with_scalar = [matrix, make_tensor([-9.0], dtype, ())]
    yield make_case(rule, "matrix", dtype, with_scalar, {"clip_norm": 1.0}, expect("returned-norm"), ["returns_norm"])
    if dtype == "float32":
        yield from _ask_returned_norm_with(rule, dtype, apart, matrix)


def _ask_returned_norm_with(rule: str, dtype: str, apart: list[Gradient], matrix: Gradient) -> Iterator[Case]:
    """Ask for the norm in unusual calls: extreme thresholds, and gradients that are None, empty or strided."""
    small = {"clip_norm": 1.0}
    for name, gradients, options in (
        ("threshold-zero", apart, {"clip_norm": 0.0}),
        ("threshold-infinite", apart, {"clip_norm": math.inf}),
        ("error-flag", apart, {**small, "error_if_nonfinite": True}),
        ("beside-none", [*apart, make_tensor(None, dtype)], small),
        ("beside-empty", [make_tensor([], dtype), *apart], small),
        ("strided", [replace(matrix, layout="strided"), *apart], small),
        ("hundred", [make_tensor([1.0, -2.0, 2.0], dtype)] * 100, small),
    ):
        yield make_case(rule, name, dtype, gradients, options, expect("returned-norm"), ["returns_norm"])
    # For every order, the norm of these gradients is below 14.
    for name, p in NORM_TYPES.items():
        options = {"clip_norm": 14.0, "norm_type": p}
        yield make_case(rule, f"{name}-below", dtype, apart, options, expect("returned-norm"), ["returns_norm"])


def _make_deep(dtype: str) -> list[Gradient]:
    values = [1.0, -2.0, 4.0, -2.0, 0.5, -8.0, 0.0, 2.0]
    return [make_tensor(values, dtype, (2, 2, 2)), make_tensor(values, dtype, (2, 1, 2, 2))]


def _make_every_shape(dtype: str) -> list[Gradient]:
    """Return gradients of many shapes: tall, wide, one row, one column, and five dimensions."""
    values = [1.0, -2.0, 4.0, -2.0, 0.5, -8.0]
    shapes: list[tuple[int, ...]] = [(3, 2), (2, 3), (1, 6), (6, 1), (1, 3, 1, 2, 1)]
    return [make_tensor(values, dtype, shape) for shape in shapes]


def _make_lengths(lengths: Iterable[int], dtype: str) -> list[Gradient]:
    return [round_to_tensor(np.resize([2.0, -1.0, 4.0, -2.0], length), dtype) for length in lengths]


def _make_uneven_length(dtype: str, fifths: int) -> Gradient:
    """Return a gradient with an odd number of elements, which no block size divides."""
    return round_to_tensor(np.tile([1.0, -2.0, 3.0, -0.5, 2.0], fifths), dtype)


def _ask_every_number() -> Iterator[Case]:
    """Yield cases that hold every number of the 16-bit dtypes, which proves a clip by value for these dtypes."""
    for dtype in ("float16", "bfloat16"):
        every = np.arange(2**16, dtype="<u2")
        both, one = {"min": -1.5, "max": 0.375}, {"max": 1.5}
        # The numbers include every NaN payload, both infinities, both zeros and all subnormal numbers.
        for name, bounds in (("every-number-min-and-max", both), ("every-number-max-only", one)):
            yield make_case("value.bounds", name, dtype, [_make_from_bits(every, dtype)], bounds, expect("values"))
        finite = every[np.isfinite(decode_doubles(every.tobytes(), dtype))]
        widest = {"max": float(FORMATS[dtype].largest)}
        inside = [_make_from_bits(finite, dtype)]
        yield make_case(
            "value.inside-unchanged", "every-finite-number", dtype, inside, widest, expect("untouched", indices=(0,))
        )


def _make_from_bits(bits: npt.NDArray[np.uint16], dtype: str) -> Gradient:
    return Gradient("", Array(dtype, bits.shape, bits.tobytes()))
