"""Make the cases of unitwise clips: adaptive gradient clipping (AGC).

Each gradient of a case is a unit, with its parameter; `Gradient.group` is the number of its tensor. The module
`cases.stacking` takes tensors apart. The norm of each parameter is exact in every dtype.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from gradclip_adapters.contract import Gradient

from ...oracle.formats import FORMATS, next_down, next_up
from ..build import (
    DTYPES,
    Maker,
    keep_all,
    keep_excluded,
    list_digits,
    list_makers,
    make_odd_nans,
    make_very_long,
    number_groups,
    round_to_tensor,
)
from ..model import Case
from .nonfinite import NOT_SILENT, NOT_SILENT_NUMBERS, UNCHANGED
from .range import HUGE, LEAVES_RANGE, TINY, UNLIKE_SIZES, WIDE, list_largest
from .structure import DTYPE, NONE, SHAPE


def make_cases() -> Iterator[Case]:
    """Yield all cases of this operation."""
    for dtype in DTYPES:
        for make in list_makers(dtype, ["unitwise"]):
            yield from _ask_formula(make)
            yield from _ask_units(make)
            yield from _ask_least_norm(make)
            yield from _ask_zeros(make)
            yield from _ask_nonfinite(make)
            yield from _ask_range(make)
            yield from _ask_forms(make)
            yield from _ask_effects(make)
            if dtype == "float32":
                yield from _mix_dtypes(make)


def _make_unit(
    make: Maker,
    values: Sequence[float] | None,
    norm: float,
    shape: tuple[int, ...] | None = None,
    **more: Any,
) -> Gradient:
    """Return a unit whose parameter has this norm, exactly."""
    count = 1 if values is None else len(values)
    first = [0.6 * norm, -0.8 * norm] if norm % 5 == 0 and count > 1 else [norm]
    parameter = make.tensor([*first, *[0.0] * (count - len(first))], shape).array
    return replace(make.tensor(values, shape, **more), parameter=parameter)


def _ask_formula(make: Maker) -> Iterator[Case]:
    """Clip a vector, which is one unit."""
    dtype, digits = make.dtype, list_digits(make.dtype)
    small = 2.0**-8 if dtype == "float16" else 2.0**-18
    triangle, little = _make_unit(make, [3.0, -4.0], 5.0), _make_unit(make, [3 * small, -4 * small], 5.0)
    relative_to_one = _make_unit(make, [3.0, -4.0], 1.0)
    yield from make.table(
        "scaled-above",
        ("three-four-five", triangle, 0.25),
        ("by-half", triangle, 0.5),
        ("parameter-above-one", _make_unit(make, [3.0, -4.0], 8.0), 0.5),
        ("parameter-below-one", _make_unit(make, [3.0, -4.0], 0.5), 1.0),
        ("factor-above-one", _make_unit(make, [6.0, -8.0], 2.0), 2.0),
        ("small", little, small / 2),
        ("filter", _make_unit(make, [2.0, -4.0, 4.0, 0.0], 2.0, (2, 2)), 1.0),
        ("next-number", relative_to_one, next_down(5.0, dtype)),
        ("uneven", _make_unit(make, [1.0, -2.0, 3.0, -4.0, 5.0, -6.0, 7.0], 10.0), 0.25),
    )
    if dtype in ("float32", "float64"):
        long = round_to_tensor(np.tile([1.0, -2.0, 2.0], 3367), dtype)
        weight = round_to_tensor(np.tile([2.0, 1.0, -2.0], 3367), dtype).array
        yield make.case("scaled-above", "ten-thousand-elements", replace(long, parameter=weight), 2.0**-7)
        if dtype == "float32":
            very_long = make_very_long()
            yield make.case("scaled-above", "beyond-a-million", replace(very_long, parameter=very_long.array), 0.25)
    relative_to_eight = _make_unit(make, digits, 8.0)
    yield from make.table(
        "identity-below",
        ("three-four-five", triangle, 2.0),
        # The norm is above the factor, and the quotient of the norms is below it.
        ("norm-above", triangle, 1.5),
        ("matrix", [_make_unit(make, [-0.0, value, -0.0], 5.0) for value in (1.0, -0.75)], 1.0),
        ("zeros", _make_unit(make, [0.0, -0.0], 5.0), 1.0),
        ("small", little, 2 * small),
        ("every-digit", _make_unit(make, digits, 16.0), 1.0),
        ("next-number", relative_to_one, next_up(5.0, dtype)),
        *((f"factor-of-digits-{place}", relative_to_eight, abs(digits[place])) for place in (2, 11, 20)),
        expectation=keep_all,
    )
    yield from make.table(
        "at-threshold",
        ("three-four-five", triangle, 1.0),
        ("one-element", _make_unit(make, [-0.75], 1.5), 0.5),
        ("small", little, small),
        expectation=keep_all,
    )


def _ask_units(make: Maker) -> Iterator[Case]:
    """Clip matrices and filters, which have several units, and several tensors."""
    above, below = _make_unit(make, [3.0, -4.0, 0.0], 5.0), _make_unit(make, [0.5, 0.0, -0.25], 5.0)
    large, little = _make_unit(make, [3.0, -4.0, 0.0], 20.0), _make_unit(make, [3.0, -4.0, 0.0], 0.5)
    # As many units as elements of a unit: an axis that is mistaken for the other one shows.
    square = [_make_unit(make, [8.0 * (place <= number) for place in range(3)], 2.0**number) for number in range(3)]
    # The matrix has one input, so each unit has one element.
    single = [_make_unit(make, [value], norm) for value, norm in ((6.0, 2.0), (-0.5, 8.0), (3.0, 1.0))]
    filters = [_make_unit(make, [2.0, -4.0, 4.0, 0.0, 0.0, 0.0, 0.0, 0.0], norm, (2, 2, 2)) for norm in (2.0, 16.0)]
    kernels = [_make_unit(make, [3.0, -4.0], norm, (2, 1, 1)) for norm in (1.0, 5.0, 20.0)]
    # The matrix has one output, so all its elements are one unit.
    only = replace(_make_unit(make, [3.0, -4.0], 4.0), height=1)
    single_kernels = [
        _make_unit(make, [value], norm, (1, 1, 1)) for value, norm in ((6.0, 2.0), (-0.5, 8.0), (3.0, 1.0))
    ]
    yield from make.table(
        "each-unit-alone",
        ("above-and-below", [above, below], 0.25),
        ("two-parameters", [above, large], 0.5),
        ("three-parameters", [large, little, above], 0.5),
        ("as-many-as-elements", square, 0.25),
        ("one-input", single, 0.5),
        ("one-output", above, 0.25),
        ("matrix-of-one-unit", only, 0.5),
        ("filters", filters, 0.5),
        ("one-by-one-kernels", kernels, 0.5),
        ("one-by-one-kernels-of-one-input", single_kernels, 0.5),
        ("two-tensors", number_groups([above, below], [little, large]), 0.5),
        ("matrix-and-vector", number_groups([above, little], [_make_unit(make, [6.0, 8.0], 5.0)]), 0.5),
        ("all-below", [above, below], 2.0, keep_all),
    )
    if make.dtype in UNLIKE_SIZES:
        # Beside the first unit, the second one is so small that the square of their quotient is zero.
        big, small = UNLIKE_SIZES[make.dtype]
        unlike = [_make_unit(make, [3 * size, -4 * size], norm) for size, norm in ((big, big), (small, 1.0))]
        yield make.case("each-unit-alone", "far-apart", unlike, small)
    if make.dtype == "float32":
        yield from _ask_many(make)
    yield from make.table(
        "vector-is-one-unit",
        # One element is below its own limit, and the whole vector is above.
        ("above-together", _make_unit(make, [3.0, -4.0], 5.0), 0.75),
        ("parameter-of-one-element", _make_unit(make, [3.0, -4.0], 4.0), 0.5),
    )


def _ask_many(make: Maker) -> Iterator[Case]:
    """Clip a hundred tensors, many units and long units. Rows of the sampler have fewer and shorter ones."""
    many = [_make_unit(make, [1.0, -2.0, 2.0], norm) for norm in (2.0, 8.0, 5.0) * 44]
    long = round_to_tensor(np.tile([1.0, -2.0, 2.0], 1667), make.dtype)
    # The norms of the units are 122.
    weights = [round_to_tensor(np.bincount([0], [norm], 5001), make.dtype).array for norm in (64.0, 256.0, 16.0)]
    yield from make.table(
        "each-unit-alone",
        ("hundred-tensors", number_groups(*([unit] for unit in many[:100])), 0.5),
        ("many-units", many, 0.5),
        ("long-units", [replace(long, parameter=weight) for weight in weights], 1.0),
    )


def _ask_least_norm(make: Maker) -> Iterator[Case]:
    """Clip gradients whose parameters have a norm near `eps` or below it."""
    eps = 2.0**-10
    both = [_make_unit(make, [3.0, -4.0, 0.0], norm) for norm in (0.0, 2.0)]
    yield from make.table(
        "least-parameter-norm",
        ("zero-parameter", _make_unit(make, [3.0, -4.0], 0.0), 1.0, {"eps": eps}),
        ("below-eps", _make_unit(make, [3.0, -4.0], eps / 4), 1.0, {"eps": eps}),
        # A sum with `eps`, or a product, differs from the larger one.
        ("above-eps", _make_unit(make, [3.0, -4.0], 2.0), 1.0, {"eps": 1.5}),
        ("large-eps", _make_unit(make, [6.0, -8.0], 0.5), 0.5, {"eps": 8.0}),
        ("one-unit-of-two", both, 0.5, {"eps": eps}),
        ("zero-parameter-below", _make_unit(make, [0.75 * eps, 0.0], 0.0), 1.0, keep_all, {"eps": eps}),
    )


def _ask_zeros(make: Maker) -> Iterator[Case]:
    zeros, triangle = _make_unit(make, [0.0, 0.0], 5.0), _make_unit(make, [3.0, -4.0], 5.0)
    yield from make.rows(
        ("zero-gradient/alone", zeros, 1.0),
        ("zero-gradient/beside-another-unit", [zeros, triangle], 0.5),
        ("zero-gradient-zero-threshold/alone", zeros, 0.0),
        ("zero-gradient-zero-threshold/beside-another-unit", [triangle, zeros], 0.0),
        ("zero-threshold/one-unit", triangle, 0.0),
    )


def _ask_nonfinite(make: Maker) -> Iterator[Case]:
    beside, nan = _make_unit(make, [3.0, -4.0, 0.0], 5.0), _make_unit(make, [3.0, math.nan, -1.0], 5.0)
    for rule, name, value in NOT_SILENT_NUMBERS:
        some = _make_unit(make, [3.0, value, -1.0], 5.0)
        yield from make.rows(
            (f"{rule}/{name}", some, 1.0, NOT_SILENT),
            (f"{rule}/{name}-beside-finite", [beside, some], 0.5, NOT_SILENT),
            (f"infinite-threshold-nonfinite/{name}", some, math.inf, UNCHANGED),
        )
    yield from make.rows(
        ("nan-not-silent/threshold-zero", [nan, nan], 0.0, NOT_SILENT),
        ("infinite-threshold/finite", beside, math.inf, keep_all),
    )


def _ask_range(make: Maker) -> Iterator[Case]:
    for rule, units in (("overflow-of-squares", HUGE), ("underflow-of-squares", TINY)):
        unit = units[make.dtype]
        gradient = _make_unit(make, [3 * unit, -4 * unit], 1.0)
        # Only the squares of the parameter leave the range. A function's own `eps` may be above a small parameter.
        extreme, options = _make_unit(make, [3.0, -4.0], 4 * unit), {} if unit > 1 else {"eps": 0.0}
        yield from make.table(
            rule,
            ("three-four-five", gradient, unit, WIDE),
            ("below", gradient, 8 * unit, keep_all),
            ("parameter", extreme, 0.25 / unit, WIDE, options),
        )
    four, quarter = _make_unit(make, list_largest(make.dtype), 1.0), float(FORMATS[make.dtype].largest) / 4
    yield make.case("norm-beyond-range", "twice-the-largest", four, quarter, LEAVES_RANGE)
    if FORMATS[make.dtype].precision > 11:
        return
    # A running sum of ones stops at 2048 with 11 bits, and at 256 with 8 bits. The sum of 256s leaves float16's range.
    for name, value in (("running-sum", 1.0), ("sum-out-of-range", 16.0)):
        constant, few = [value] * 4096, make.tensor([3 * value, -4 * value, *[0.0] * 4094])
        yield from make.table(
            "half-not-accumulated-in-half",
            (name, _make_unit(make, constant, 4.0), 0.25),
            (f"{name}-of-parameter", replace(few, parameter=make.tensor(constant).array), 2.0**-5),
            expectation=WIDE,
        )


def _ask_forms(make: Maker) -> Iterator[Case]:
    triangle, nothing = _make_unit(make, [3.0, -4.0], 5.0), _make_unit(make, None, 1.0)
    empty = replace(make.tensor([]), parameter=make.tensor([]).array)
    scalars = number_groups(*([_make_unit(make, [value], 2.0, ())] for value in (3.0, -0.125, -6.0)))
    rows = [_make_unit(make, [2.0, -4.0, 4.0, 0.0], norm) for norm in (2.0, 8.0)]
    filters = [_make_unit(make, [2.0, -4.0, 4.0, 0.0, 0.0, 0.0], norm, (3, 1, 2)) for norm in (2.0, 16.0)]
    deep = replace(make.tensor([], (0, 3)), parameter=make.tensor([], (0, 3)).array)
    shapes, two = number_groups(rows, [triangle], filters), number_groups(rows, [triangle])
    yield from make.rows(
        ("none-stays-none/between", number_groups([triangle], [nothing], [triangle]), 0.5, NONE),
        ("empty-tensor/alone", empty, 1.0, SHAPE),
        ("empty-tensor/beside-others", number_groups([empty], [empty] * 2, [deep], [triangle]), 0.5),
        ("zero-dimensional/values", scalars, 0.5),
        ("zero-dimensional/shape", scalars, 0.5, SHAPE),
        ("shape-kept/clipped", shapes, 0.5, SHAPE),
        ("dtype-kept/clipped", two, 0.5, DTYPE),
        ("shape-kept/not-clipped", shapes, 16.0, SHAPE),
        ("dtype-kept/not-clipped", two, 16.0, DTYPE),
        ("dtype-accepted/alone", rows, 0.5, DTYPE),
    )
    finite = _make_unit(make, [8.0, -0.0, 3.0], 1.0, need_clip=False)
    nonfinite = _make_unit(make, [math.nan, -math.inf, 1.0], 1.0, need_clip=False)
    yield from make.table(
        "excluded-untouched",
        ("finite", number_groups([triangle], [finite]), 0.5),
        ("nonfinite", number_groups([triangle], [nonfinite]), 0.5),
        ("first", number_groups([finite], [triangle]), 0.5),
        ("every", number_groups([finite], [nonfinite]), 0.5),
        ("after-none", number_groups([nothing], [finite], [triangle]), 0.5),
        expectation=keep_excluded,
    )
    if make.dtype == "float32":
        odd = replace(make_odd_nans(), parameter=triangle.parameter)
        shared = [_make_unit(make, [3.0, -4.0, 0.0], norm, layout="broadcast") for norm in (5.0, 20.0)]
        yield from make.rows(
            ("excluded-untouched/bits-of-nan", number_groups([triangle], [odd]), 0.5, keep_excluded),
            ("layout/broadcast-units", shared, 0.5),
        )


def _mix_dtypes(make: Maker) -> Iterator[Case]:
    narrow, wide = replace(make, dtype="float16"), replace(make, dtype="float32")
    units = number_groups([_make_unit(narrow, [3.0, -4.0], 5.0)], [_make_unit(wide, [6.0, -8.0], 2.0)])
    yield replace(make, dtype="float16+float32").case("mixed-dtypes", "values", units, 0.5)
    # The norm of the parameter is beyond the range of the gradient's dtype.
    far = 2.0**20
    parameter = wide.tensor([3 * far, -4 * far]).array
    beyond = replace(narrow.tensor([3.0, -4.0]), parameter=parameter)
    yield from narrow.table(
        "mixed-dtypes",
        ("parameter-of-another-dtype", beyond, 0.25 / far),
        ("parameter-of-another-dtype-below", beyond, 8 / far, keep_all),
    )
    yield from narrow.large_scalars(beyond, 0.25 / far, "parameter-beyond-range")


def _ask_effects(make: Maker) -> Iterator[Case]:
    rows = [_make_unit(make, [2.0, -4.0, 4.0, 0.0], norm) for norm in (2.0, 8.0)]
    vector, zeros = _make_unit(make, [3.0, -4.0], 5.0), [_make_unit(make, [0.0] * 4, norm) for norm in (2.0, 0.0)]
    gradients, with_zeros = number_groups([vector], rows), number_groups([vector], [*rows, *zeros])
    yield from make.large_scalars(_make_unit(make, [720.0, -960.0], 1.0))
    yield from make.effects(gradients, clipped=0.5, not_clipped=16.0, with_zeros=with_zeros)
    yield from make.refused_thresholds(gradients)
