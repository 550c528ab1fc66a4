"""Make cases of the formulas: above, below and at the threshold, orders of the norm, and the returned norm.

The numbers are small integers times powers of two. They are exact in every dtype, and so are their norms: the norm of 3
and 4 is 5, and the norm of 2, 4 and 4 is 6. So only the arithmetic under test can be wrong.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from gradclip_adapters.contract import Array, Gradient

from ...oracle.formats import FORMATS, decode_doubles, next_down, next_up
from .. import derivatives
from ..build import (
    DTYPES,
    NORM_OPERATIONS,
    Maker,
    keep_all,
    list_digits,
    list_makers,
    make_very_long,
    round_to_tensor,
)
from ..model import Case, expect

#: Orders of the norm that is returned, other than the Euclidean one.
NORM_TYPES = {"p-one": 1.0, "infinity": math.inf, "p-three": 3.0, "p-half": 0.5, "p-three-halves": 1.5}

#: Places in a long array: where vectors, blocks and chunks of common sizes begin or end, and at the end of the array.
EDGES = [0, 31, 4095, 4096, 16384, 32767, 65535, 65536, 65537, 69999, 70000]

#: Lengths at which vectors and blocks of common sizes end.
LENGTHS = {
    "every-length": range(1, 33),
    "beside-powers-of-two": [2**k + i for k in range(6, 14) for i in (-1, 0, 1)],
}

#: The elements of most cases by value. All are exact in every dtype.
SPREAD = [-3.0, -1.0, -0.5, 0.0, 0.5, 1.0, 3.0]

#: Dtypes in which the error bound of a long sum hides no missing block.
WIDE = ("float32", "float64")


def make_cases() -> Iterator[Case]:
    """Yield all cases of this theme."""
    for dtype in DTYPES:
        for make in list_makers(dtype, ["value"]):
            yield from _make_value_cases(make)
        by_norms = list_makers(dtype, NORM_OPERATIONS)
        for make in by_norms:
            yield from _make_norm_cases(make)
            yield from _ask_other_norms(make)
        for make in by_norms:
            if make.operation.is_global:
                yield from _clip_all_together(make)
                yield from _ask_returned_norm(make)
            else:
                yield from _clip_one_tensor_at_a_time(make)
                yield from _take_norms_over_axes(make)
    for dtype in ("float16", "bfloat16"):
        yield from _ask_every_number(*list_makers(dtype, ["value"]))
    yield from derivatives.make_cases()


def _make_value_cases(make: Maker) -> Iterator[Case]:
    dtype, spread, deep = make.dtype, make.tensor(SPREAD), _make_deep(make)
    tiny, huge = _choose_units(dtype)
    subnormal = 16 * float(FORMATS[dtype].smallest_subnormal)
    # In float32 the length exceeds 2**16.
    uneven = _make_uneven_length(dtype, 26_217 if dtype == "float32" else 203)
    # With bounds of equal magnitude, no result shows which bound was used.
    forms = [make.tensor(SPREAD[:6], (2, 3)), make.tensor(SPREAD[:1], ()), *deep, _make_uneven_length(dtype, 203)]
    yield from make.table(
        "bounds",
        ("max-only", spread, 1.0),
        ("min-and-max", spread, 2.0, {"min": -0.5}),
        ("positive-range", spread, 0.75, {"min": 0.25}),
        # A function may mistake a bound of 0 for a missing bound, or may assume that 0 lies between the bounds.
        ("min-zero", spread, 2.0, {"min": 0.0}),
        ("max-zero", spread, 0.0, {"min": -1.0}),
        ("negative-range", spread, -0.75, {"min": -2.0}),
        *(
            (name, _spread_by(make, unit), 2 * unit, {"min": -0.75 * unit})
            for name, unit in (("tiny", tiny), ("huge", huge), ("subnormal", subnormal))
        ),
        # A narrower dtype cannot represent these bounds.
        ("every-digit", spread, list_digits(dtype)[8], {"min": list_digits(dtype)[7]}),
        ("equal-bounds", spread, 0.75, {"min": 0.75}),
        *((name, gradients, 1.5) for name, gradients in _list_shapes_and_lengths(make)),
        ("three-and-four-dimensional", deep, 1.5),
        ("uneven-length", uneven, 1.5),
        ("min-and-max-of-every-form", forms, 2.0, {"min": -0.5}),
        *([("beyond-a-million", make_very_long(), 2.0)] if dtype == "float32" else []),
    )
    yield from _ask_one_bound(make, forms)
    two = [make.tensor([8.0, -8.0, 0.125]), make.tensor([0.5, 2.0, -2.0, 1.5], (2, 2))]
    yield make.case("bounds", "two-tensors", two, 1.0, min=-1.0)
    inside = make.tensor([-0.0, 0.0, 1.5, -2.0, 4.0, -4.0])
    yield from make.table(
        "inside-unchanged",
        ("max-only", inside, 4.0),
        ("min-and-max", inside, 4.0, {"min": -4.0}),
        ("matrix", make.tensor([-0.0, 0.0, 1.5, -2.0, 4.0, -0.0], (2, 3)), 4.0),
        ("every-digit", make.tensor(list_digits(dtype)), 2.0, {"min": -2.0}),
        ("every-digit-long", round_to_tensor(np.tile(list_digits(dtype), 45), dtype), 2.0),
        expectation=keep_all,
    )
    yield make.case("min-defaults-to-minus-max", "below-minus-max", make.tensor([-3.0, -2.0, -1.0, 3.0]), 2.0)


def _choose_units(dtype: str) -> tuple[float, float]:
    return (2.0**-12, 2.0**12) if dtype == "float16" else (2.0**-64, 2.0**64)


def _spread_by(make: Maker, unit: float) -> Gradient:
    return make.tensor([value * unit for value in SPREAD])


def _ask_one_bound(make: Maker, forms: list[Gradient]) -> Iterator[Case]:
    """Pass only one bound, because some functions take only one. Also pass two bounds of which only one is active."""
    dtype, spread, form = make.dtype, make.tensor(SPREAD), FORMATS[make.dtype]
    tiny, huge = _choose_units(dtype)
    subnormal, largest = float(form.smallest_subnormal), float(form.largest)
    digit = abs(list_digits(dtype)[7])
    yield from make.table(
        "bounds",
        ("tiny-max-only", _spread_by(make, tiny), 0.75 * tiny),
        ("huge-max-only", _spread_by(make, huge), 0.75 * huge),
        ("subnormal-max-only", _spread_by(make, 16 * subnormal), 12 * subnormal),
        ("normal-to-subnormal", spread, 3 * subnormal),
        ("every-digit-max-only", spread, digit),
        ("largest", make.tensor([largest, -largest, 1.0]), 2 * digit),
        ("max-only-of-every-form", forms, 0.75),
        ("only-max-active", spread, 0.75, {"min": -8.0}),
        ("only-min-active", spread, 8.0, {"min": -0.75}),
        ("normal-to-subnormal-min-and-max", spread, 3 * subnormal, {"min": -2 * subnormal}),
    )
    if dtype != "float64":
        yield from _ask_rounded_bounds(make)


def _ask_rounded_bounds(make: Maker) -> Iterator[Case]:
    """Pass bounds that the dtype cannot represent: between two of its numbers, or beyond the largest."""
    dtype, spread, form = make.dtype, make.tensor(SPREAD), FORMATS[make.dtype]
    rounded = expect("rounded-bounds")
    yield from make.table(
        "bounds-rounded",
        ("tenth", spread, 0.1),
        ("tenth-and-two-thirds", spread, 0.1, {"min": -2 / 3}),
        ("beyond-the-range", spread, 4 * float(form.largest)),
        *([("integer-beyond-the-range", spread, 4 * int(form.largest))] if dtype == "float16" else []),
        ("below-the-subnormal", spread, float(form.smallest_subnormal) / 4),
        expectation=rounded,
    )
    wide = "float64" if dtype == "float32" else "float32"
    # The wider of the two dtypes represents the bound.
    bound = 0.5 + 2.0**-15 if dtype != "float32" else 0.5 + 2.0**-30
    (other,) = list_makers(wide, ["value"])
    for name, mixed in (
        (f"{dtype}+{wide}", [spread, other.tensor(SPREAD)]),
        (f"{wide}+{dtype}", [other.tensor(SPREAD), spread]),
    ):
        yield replace(make, dtype=name).case("bounds-rounded", "narrowest-of-two", mixed, bound, rounded)


def _make_norm_cases(make: Maker) -> Iterator[Case]:
    dtype, precision = make.dtype, FORMATS[make.dtype].precision
    triangle, digits = make.tensor([3.0, 4.0]), make.tensor(list_digits(dtype))
    # For elements of this size, an epsilon of 1e-6 added to the norm changes the result in every dtype. Their squares
    # are still exact.
    small = 2.0**-12 if dtype == "float16" else 2.0**-18
    little = make.tensor([3 * small, 4 * small])
    # The products with clip_norm are normal numbers. Another rule, about the range, covers subnormal ones.
    unit = 2.0**-8 if dtype == "float16" else small
    yield from make.table(
        "scaled-above",
        ("three-four-five", triangle, 1.0),
        ("by-half", triangle, 2.5),
        ("far-above", make.tensor([96.0, -128.0]), 0.125),
        ("small", make.tensor([3 * unit, 4 * unit]), 2.5 * unit),
        ("matrix", make.tensor([2.0, -4.0, 0.0, 0.0, 4.0, 0.0], (2, 3)), 2.0),
        ("uneven", make.tensor([1.0, -2.0, 3.0, -4.0, 5.0, -6.0, 7.0]), 2.0),
        ("three-and-four-dimensional", _make_deep(make), 3.0),
        ("norm-one", make.tensor([0.5, -0.5, 0.5, 0.5]), 0.25),
        *(
            (name, gradients, 1.5 if name == "every-shape" else 0.5)
            for name, gradients in _list_shapes_and_lengths(make)
        ),
    )
    yield from make.table(
        "identity-below",
        ("three-four-five", triangle, 8.0),
        ("far-below", make.tensor([-0.0, 1.0, -0.75]), 1024.0),
        ("matrix", make.tensor([-0.0, 1.0, -0.75, -0.0], (2, 2)), 4.0),
        ("zeros", make.tensor([0.0, -0.0]), 1.0),
        ("small", little, 8 * small),
        ("every-digit", digits, 8.0),
        # A product with a threshold that is not a power of two is rounded. The norm is between 7 and 8 for one tensor,
        # and below 12 for two.
        *((f"threshold-of-digits-{place}", digits, abs(list_digits(dtype)[place]) * 8) for place in (2, 11, 20)),
        (
            "threshold-of-digits-two-tensors",
            [digits, make.tensor(list_digits(dtype)[::-1])],
            abs(list_digits(dtype)[16]) * 16,
        ),
        # Only float64 represents this threshold. Rounded to another dtype, it is still far from the norm.
        ("threshold-in-decimals", digits, 12.1),
        expectation=keep_all,
    )
    if dtype in WIDE:
        # No common block size divides this length.
        long = round_to_tensor(np.tile([1.0, -2.0, 2.0], 3367), dtype)
        yield make.case("scaled-above", "ten-thousand-elements", long, 1.0)
        if dtype == "float32":
            yield make.case("scaled-above", "beyond-a-million", make_very_long(), 1.0)
    if dtype != "bfloat16":
        # The only nonzero elements are where kernels cut long arrays, so that a lost part changes the result.
        values = np.zeros(EDGES[-1] + 1)
        values[EDGES] = [(-1.0) ** k * (3 + k % 2) for k in range(len(EDGES))]
        at_edges = round_to_tensor(values, dtype)
        yield from make.rows(
            ("scaled-above/mass-at-edges", at_edges, 2.0), ("identity-below/mass-at-edges", at_edges, 32.0, keep_all)
        )
    yield from make.table(
        "at-threshold",
        ("three-four-five", triangle, 5.0),
        ("one-element", make.tensor([-0.75]), 0.75),
        ("small", little, 5 * small),
        expectation=keep_all,
    )
    beside = "neighbours-of-threshold"
    yield from make.table(
        beside,
        ("threshold-above", triangle, next_up(5.0, dtype), keep_all),
        ("threshold-below", triangle, next_down(5.0, dtype)),
        # The norm and the threshold agree in half of the dtype's digits. A comparison in a narrower dtype finds them
        # equal and leaves the gradient unscaled, which is outside the error bound.
        ("threshold-slightly-below", triangle, 5.0 * (1 - 2.0 ** -(precision // 2))),
    )
    if dtype in WIDE:
        # The difference is smaller than the tolerance of functions such as `isclose`, but larger than the error bound.
        yield make.case(beside, "threshold-hardly-below", triangle, 5.0 * (1 - 2.0 ** (6 - precision)))


def _ask_other_norms(make: Maker) -> Iterator[Case]:
    triangle, largest, infinity = make.tensor([3.0, 4.0]), make.tensor([1.0, -4.0, 2.0]), {"norm_type": math.inf}
    # Libraries define other norms for a matrix: the largest sum over a column or a row. Several elements share the
    # largest magnitude, so that a norm of a high order differs from the infinity norm.
    matrix = make.tensor([4.0, -4.0, 3.0, -4.0], (2, 2))
    # The norm over both tensors is not the Euclidean norm of their two norms.
    uneven = make.tensors([1.0, -4.0], [3.0, 2.0])
    yield from make.table(
        "p-norm",
        ("one", make.tensor([1.0, 2.0, -3.0]), 3.0, {"norm_type": 1.0}),
        ("one-between-the-norms", triangle, 6.0, {"norm_type": 1.0}),
        ("three", make.tensor([3.0, -4.0, 5.0]), 3.0, {"norm_type": 3.0}),
        ("half", make.tensor([1.0, 4.0]), 3.0, {"norm_type": 0.5}),
        ("three-halves", make.tensor([1.0, 4.0]), 2.0, {"norm_type": 1.5}),
        ("four", make.tensor([2.0, -4.0, 4.0]), 3.0, {"norm_type": 4.0}),
        ("three-as-an-integer", make.tensor([3.0, -4.0, 5.0]), 3.0, {"norm_type": 3}),
        ("matrix-one", matrix, 7.5, {"norm_type": 1.0}),
        ("three-between-the-norms", triangle, 4.75, keep_all, {"norm_type": 3.0}),
    )
    yield make.case("infinity-norm", "matrix", matrix, 2.0, norm_type=math.inf)
    if make.operation.is_global:
        yield from make.table(
            "p-norm",
            ("two-tensors-one", uneven, 5.0, {"norm_type": 1.0}),
            ("two-tensors-three", uneven, 2.0, {"norm_type": 3.0}),
            ("two-tensors-half", uneven, 12.0, {"norm_type": 0.5}),
            ("two-tensors-three-halves", uneven, 3.0, {"norm_type": 1.5}),
            ("two-tensors-four", uneven, 2.0, {"norm_type": 4.0}),
        )
        yield make.case("infinity-norm", "two-tensors-at-threshold", uneven, 4.0, keep_all, norm_type=math.inf)
    yield from make.table(
        "infinity-norm", ("above", largest, 2.0, infinity), ("at-threshold", largest, 4.0, keep_all, infinity)
    )


def _clip_one_tensor_at_a_time(make: Maker) -> Iterator[Case]:
    yield from make.table(
        "each-tensor-alone",
        ("above-and-below", make.tensors([3.0, 4.0], [0.5, -0.25]), 1.0),
        ("both-above", make.tensors([6.0, 8.0], [12.0, -16.0]), 5.0),
        ("only-together-above", make.tensors([3.0], [4.0]), 4.5, keep_all),
    )


def _take_norms_over_axes(make: Maker) -> Iterator[Case]:
    """Take norms over some axes. Of the slices, some are clipped, some not, and some are zero."""
    matrix = make.tensor([3.0, 4.0, 0.0, 0.0, 0.5, 0.0, 0.0, 0.25, 0.0, 0.0, 0.0, 0.0], (3, 4))
    rows = [matrix, make.tensor([-6.0, 0.0, 0.0, 8.0], (1, 4))]
    block = make.tensor([4.0, -0.125, 0.0, 0.0, 2.0, 0.5, -4.0, 0.0, 0.0, 0.0, 0.0, -0.5], (2, 2, 3))
    yield from make.table(
        "norm-over-axes",
        ("columns", matrix, 2.5, {"axes": "0"}),
        ("rows", rows, 2.5, {"axes": "1"}),
        ("last-axis", rows, 2.5, {"axes": "-1"}),
        ("all-axes", matrix, 2.5, {"axes": "0,1"}),
        ("middle-axis", block, 2.5, {"axes": "1"}),
        ("outer-axes", block, 2.5, {"axes": "0,2"}),
        expectation=expect("norm-over-axes"),
    )


def _clip_all_together(make: Maker) -> Iterator[Case]:
    rule, apart = "one-norm-over-all", make.tensors([3.0], [4.0])
    three = [make.tensor([2.0, 0.0]), make.tensor([-4.0, 0.0, 0.0, 0.0], (2, 2)), make.tensor([4.0])]
    yield from make.table(
        rule,
        ("two-tensors", apart, 1.0),
        ("each-below-alone", apart, 4.5),
        ("three-shapes", three, 3.0),
        ("p-one", apart, 3.5, {"norm_type": 1.0}),
        ("infinity", apart, 2.0, {"norm_type": math.inf}),
        ("p-three", apart, 2.0, {"norm_type": 3.0}),
        ("p-one-uneven", make.tensors([1.0, -4.0], [3.0]), 3.5, {"norm_type": 1.0}),
        ("at-threshold", three, 6.0, keep_all),
        ("below", three, 7.0, keep_all),
    )
    if make.dtype in WIDE:
        long_and_short = [_make_uneven_length(make.dtype, 203), make.tensor([1024.0])]
        yield make.case(rule, "long-and-short", long_and_short, 512.0)


def _ask_returned_norm(make: Maker) -> Iterator[Case]:
    """Ask for the norm, in float32 also with extreme thresholds and with gradients that are None, empty or strided."""
    apart, matrix = make.tensors([3.0], [4.0]), make.tensor([2.0, -4.0, 4.0, 0.0], (2, 2))
    returned = expect("returned-norm")
    yield from make.table(
        "returned-norm",
        ("above", apart, 1.0),
        ("at-threshold", apart, 5.0),
        ("below", apart, 8.0),
        *((name, apart, 1.0, {"norm_type": p}) for name, p in NORM_TYPES.items()),
        ("matrix", [matrix, make.tensor([-9.0], ())], 1.0),
        expectation=returned,
    )
    if make.dtype == "float32":
        yield from make.table(
            "returned-norm",
            ("threshold-zero", apart, 0.0),
            ("threshold-infinite", apart, math.inf),
            ("error-flag", apart, 1.0, {"error_if_nonfinite": True}),
            ("beside-none", [*apart, make.tensor(None)], 1.0),
            ("beside-empty", [make.tensor([]), *apart], 1.0),
            ("strided", [replace(matrix, layout="strided"), *apart], 1.0),
            ("hundred", [make.tensor([1.0, -2.0, 2.0])] * 100, 1.0),
            # For every order, the norm of these gradients is below 14.
            *((f"{name}-below", apart, 14.0, {"norm_type": p}) for name, p in NORM_TYPES.items()),
            expectation=returned,
        )


def _make_deep(make: Maker) -> list[Gradient]:
    values = [1.0, -2.0, 4.0, -2.0, 0.5, -8.0, 0.0, 2.0]
    return [make.tensor(values, (2, 2, 2)), make.tensor(values, (2, 1, 2, 2))]


def _list_shapes_and_lengths(make: Maker) -> Iterator[tuple[str, list[Gradient]]]:
    """Yield gradients of many shapes and of many lengths, with the name of their case. One dtype is enough."""
    if make.dtype != "float32":
        return
    values = [1.0, -2.0, 4.0, -2.0, 0.5, -8.0]
    # Tall, wide, one row, one column, and five dimensions.
    shapes: list[tuple[int, ...]] = [(3, 2), (2, 3), (1, 6), (6, 1), (1, 3, 1, 2, 1)]
    yield "every-shape", [make.tensor(values, shape) for shape in shapes]
    for name, lengths in LENGTHS.items():
        yield name, [round_to_tensor(np.resize([2.0, -1.0, 4.0, -2.0], length), make.dtype) for length in lengths]


def _make_uneven_length(dtype: str, fifths: int) -> Gradient:
    """Return a gradient with an odd number of elements, which no block size divides."""
    return round_to_tensor(np.tile([1.0, -2.0, 3.0, -0.5, 2.0], fifths), dtype)


def _ask_every_number(make: Maker) -> Iterator[Case]:
    """Yield cases that hold every number of a 16-bit dtype, which proves a clip by value for this dtype."""
    bits = np.arange(2**16, dtype="<u2")
    # The numbers include every NaN payload, both infinities, both zeros and all subnormal numbers.
    every = _make_from_bits(bits, make.dtype)
    finite = _make_from_bits(bits[np.isfinite(decode_doubles(bits.tobytes(), make.dtype))], make.dtype)
    yield from make.rows(
        ("bounds/every-number-min-and-max", every, 0.375, {"min": -1.5}),
        ("bounds/every-number-max-only", every, 1.5),
        ("inside-unchanged/every-finite-number", finite, float(FORMATS[make.dtype].largest), keep_all),
    )


def _make_from_bits(bits: npt.NDArray[np.uint16], dtype: str) -> Gradient:
    return Gradient("", Array(dtype, bits.shape, bits.tobytes()))
