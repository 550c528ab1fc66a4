"""Make the cases of unitwise clips: adaptive gradient clipping (AGC).

Each gradient of a case is a unit, with its parameter; `Gradient.group` is the number of its tensor. The modules of
`cases.stacking` take tensors apart. The norm of each parameter is exact in every dtype.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from gradclip_adapters.contract import Gradient

from ...oracle.formats import FORMATS, next_down, next_up
from ..build import DTYPES, list_digits, make_case, make_tensor, round_to_tensor
from ..model import Case, Expect, expect
from .averages import HUGE, TINY

__all__ = ["make_cases"]

VALUES = expect("values")
KEPT = expect("untouched", indices=(0,))


def make_cases() -> Iterator[Case]:
    """Yield all cases of this operation."""
    for dtype in DTYPES:
        yield from _ask_formula(dtype)
        yield from _ask_units(dtype)
        yield from _ask_least_norm(dtype)
        yield from _ask_zeros(dtype)
        yield from _ask_nonfinite(dtype)
        yield from _ask_range(dtype)
        yield from _ask_forms(dtype)
        yield from _ask_effects(dtype)


def _ask(
    rule: str,
    variant: str,
    dtype: str,
    tensors: Sequence[Sequence[Gradient]],
    factor: float,
    expectation: Expect = VALUES,
    needs: Sequence[str] = (),
    **options: float,
) -> Case:
    """Return a case of some tensors, each of which is a list of units."""
    gradients = [replace(unit, group=number) for number, tensor in enumerate(tensors) for unit in tensor]
    every: dict[str, Any] = {"clip_factor": factor, **options}
    return make_case(f"unitwise.{rule}", variant, dtype, gradients, every, expectation, needs)


def _make_unit(
    values: Sequence[float] | None,
    dtype: str,
    norm: float,
    shape: tuple[int, ...] | None = None,
    **more: Any,
) -> Gradient:
    """Return a unit whose parameter has this norm, exactly."""
    count = 1 if values is None else len(values)
    first = [0.6 * norm, -0.8 * norm] if norm % 5 == 0 and count > 1 else [norm]
    parameter = make_tensor([*first, *[0.0] * (count - len(first))], dtype, shape).array
    return replace(make_tensor(values, dtype, shape, **more), parameter=parameter)


def _ask_formula(dtype: str) -> Iterator[Case]:
    """Clip a vector, which is one unit."""
    small = 2.0**-8 if dtype == "float16" else 2.0**-18
    triangle, little = _make_unit([3.0, -4.0], dtype, 5.0), _make_unit([3 * small, -4 * small], dtype, 5.0)
    matrix = _make_unit([2.0, -4.0, 4.0, 0.0], dtype, 2.0, (2, 2))
    for name, unit, factor in (
        ("three-four-five", triangle, 0.25),
        ("by-half", triangle, 0.5),
        ("parameter-above-one", _make_unit([3.0, -4.0], dtype, 8.0), 0.5),
        ("parameter-below-one", _make_unit([3.0, -4.0], dtype, 0.5), 1.0),
        ("factor-above-one", _make_unit([6.0, -8.0], dtype, 2.0), 2.0),
        ("small", little, small / 2),
        ("filter", matrix, 1.0),
        ("next-number", _make_unit([3.0, -4.0], dtype, 1.0), next_down(5.0, dtype)),
        ("uneven", _make_unit([1.0, -2.0, 3.0, -4.0, 5.0, -6.0, 7.0], dtype, 10.0), 0.25),
    ):
        yield _ask("scaled-above", name, dtype, [[unit]], factor)
    if dtype in ("float32", "float64"):
        long = round_to_tensor(np.tile([1.0, -2.0, 2.0], 3367), dtype)
        weight = round_to_tensor(np.tile([2.0, 1.0, -2.0], 3367), dtype).array
        yield _ask("scaled-above", "ten-thousand-elements", dtype, [[replace(long, parameter=weight)]], 2.0**-7)
    digits = list_digits(dtype)
    for name, unit, factor in (
        ("three-four-five", triangle, 2.0),
        # The norm is above the factor, and the quotient of the norms is below it.
        ("norm-above", triangle, 1.5),
        ("small", little, 2 * small),
        ("every-digit", _make_unit(digits, dtype, 16.0), 1.0),
        ("next-number", _make_unit([3.0, -4.0], dtype, 1.0), next_up(5.0, dtype)),
        *((f"factor-of-digits-{place}", _make_unit(digits, dtype, 8.0), abs(digits[place])) for place in (2, 11, 20)),
    ):
        yield _ask("identity-below", name, dtype, [[unit]], factor, KEPT)
    for name, unit, factor in (
        ("three-four-five", triangle, 1.0),
        ("one-element", _make_unit([-0.75], dtype, 1.5), 0.5),
        ("small", little, small),
    ):
        yield _ask("at-threshold", name, dtype, [[unit]], factor, KEPT)


def _ask_units(dtype: str) -> Iterator[Case]:
    """Clip matrices and filters, which have several units, and several tensors."""
    above, below = _make_unit([3.0, -4.0, 0.0], dtype, 5.0), _make_unit([0.5, 0.0, -0.25], dtype, 5.0)
    large, little = _make_unit([3.0, -4.0, 0.0], dtype, 20.0), _make_unit([3.0, -4.0, 0.0], dtype, 0.5)
    rule = "each-unit-alone"
    yield _ask(rule, "above-and-below", dtype, [[above, below]], 0.25)
    yield _ask(rule, "two-parameters", dtype, [[above, large]], 0.5)
    yield _ask(rule, "three-parameters", dtype, [[large, little, above]], 0.5)
    # As many units as elements of a unit: an axis that is mistaken for the other one shows.
    square = [_make_unit([8.0 * (place <= number) for place in range(3)], dtype, 2.0**number) for number in range(3)]
    yield _ask(rule, "as-many-as-elements", dtype, [square], 0.25)
    yield _ask(rule, "all-below", dtype, [[above, below]], 2.0, expect("untouched", indices=(0, 1)))
    # The matrix has one input, so each unit has one element.
    single = [_make_unit([value], dtype, norm) for value, norm in ((6.0, 2.0), (-0.5, 8.0), (3.0, 1.0))]
    yield _ask(rule, "one-input", dtype, [single], 0.5)
    yield _ask(rule, "one-output", dtype, [[above]], 0.25)
    filters = [_make_unit([2.0, -4.0, 4.0, 0.0, 0.0, 0.0, 0.0, 0.0], dtype, norm, (2, 2, 2)) for norm in (2.0, 16.0)]
    yield _ask(rule, "filters", dtype, [filters], 0.5)
    yield _ask(rule, "two-tensors", dtype, [[above, below], [little, large]], 0.5)
    yield _ask(rule, "matrix-and-vector", dtype, [[above, little], [_make_unit([6.0, 8.0], dtype, 5.0)]], 0.5)
    vector = "vector-is-one-unit"
    # One element is below its own limit, and the whole vector is above.
    yield _ask(vector, "above-together", dtype, [[_make_unit([3.0, -4.0], dtype, 5.0)]], 0.75)
    yield _ask(vector, "parameter-of-one-element", dtype, [[_make_unit([3.0, -4.0], dtype, 4.0)]], 0.5)


def _ask_least_norm(dtype: str) -> Iterator[Case]:
    """Clip gradients whose parameters have a norm near `eps` or below it."""
    rule, eps = "least-parameter-norm", 2.0**-10
    zero = _make_unit([3.0, -4.0], dtype, 0.0)
    yield _ask(rule, "zero-parameter", dtype, [[zero]], 1.0, eps=eps)
    yield _ask(rule, "zero-parameter-below", dtype, [[_make_unit([0.75 * eps, 0.0], dtype, 0.0)]], 1.0, KEPT, eps=eps)
    yield _ask(rule, "below-eps", dtype, [[_make_unit([3.0, -4.0], dtype, eps / 4)]], 1.0, eps=eps)
    # A sum with `eps`, or a product, differs from the larger one.
    yield _ask(rule, "above-eps", dtype, [[_make_unit([3.0, -4.0], dtype, 2.0)]], 1.0, eps=1.5)
    yield _ask(rule, "large-eps", dtype, [[_make_unit([6.0, -8.0], dtype, 0.5)]], 0.5, eps=8.0)
    both = [_make_unit([3.0, -4.0, 0.0], dtype, 0.0), _make_unit([3.0, -4.0, 0.0], dtype, 2.0)]
    yield _ask(rule, "one-unit-of-two", dtype, [both], 0.5, eps=eps)


def _ask_zeros(dtype: str) -> Iterator[Case]:
    zeros, triangle = _make_unit([0.0, 0.0], dtype, 5.0), _make_unit([3.0, -4.0], dtype, 5.0)
    yield _ask("zero-gradient", "alone", dtype, [[zeros]], 1.0)
    yield _ask("zero-gradient", "beside-another-unit", dtype, [[zeros, triangle]], 0.5)
    yield _ask("zero-gradient-zero-threshold", "alone", dtype, [[zeros]], 0.0)
    yield _ask("zero-gradient-zero-threshold", "beside-another-unit", dtype, [[triangle, zeros]], 0.0)
    yield _ask("zero-threshold", "one-unit", dtype, [[triangle]], 0.0)


def _ask_nonfinite(dtype: str) -> Iterator[Case]:
    visible, beside = expect("not-silent"), _make_unit([3.0, -4.0, 0.0], dtype, 5.0)
    for rule, name, value in (
        ("nan-not-silent", "nan", math.nan),
        ("infinity-not-silent", "infinity", math.inf),
        ("infinity-not-silent", "minus-infinity", -math.inf),
    ):
        some = _make_unit([3.0, value, -1.0], dtype, 5.0)
        yield _ask(rule, name, dtype, [[some]], 1.0, visible)
        yield _ask(rule, f"{name}-beside-finite", dtype, [[beside, some]], 0.5, visible)
    yield _ask("infinite-threshold", "finite", dtype, [[beside]], math.inf, KEPT)


def _ask_range(dtype: str) -> Iterator[Case]:
    exact = expect("values", wide=True)
    for rule, units in (("overflow-of-squares", HUGE), ("underflow-of-squares", TINY)):
        unit = units[dtype]
        gradient = _make_unit([3 * unit, -4 * unit], dtype, 1.0)
        yield _ask(rule, "three-four-five", dtype, [[gradient]], unit, exact)
        yield _ask(rule, "below", dtype, [[gradient]], 8 * unit, KEPT)
        # Only the squares of the parameter leave the range. A function's own `eps` may be above a small parameter.
        extreme = _make_unit([3.0, -4.0], dtype, 4 * unit)
        options = {} if unit > 1 else {"eps": 0.0}
        yield _ask(rule, "parameter", dtype, [[extreme]], 0.25 / unit, exact, (), **options)
    if FORMATS[dtype].precision > 11:
        return
    # A running sum of ones stops at 2048 with 11 bits, and at 256 with 8 bits. The sum of 256s leaves float16's range.
    for name, value in (("running-sum", 1.0), ("sum-out-of-range", 16.0)):
        constant = [value] * 4096
        one = _make_unit(constant, dtype, 4.0)
        yield _ask("half-not-accumulated-in-half", name, dtype, [[one]], 0.25, exact)
        few = make_tensor([3 * value, -4 * value, *[0.0] * 4094], dtype)
        other = replace(few, parameter=make_tensor(constant, dtype).array)
        yield _ask("half-not-accumulated-in-half", f"{name}-of-parameter", dtype, [[other]], 2.0**-5, exact)


def _ask_forms(dtype: str) -> Iterator[Case]:
    triangle = _make_unit([3.0, -4.0], dtype, 5.0)
    form = {aspect: expect("structure", aspect=aspect) for aspect in ("none", "shape", "dtype")}
    nothing = _make_unit(None, dtype, 1.0)
    yield _ask("none-stays-none", "between", dtype, [[triangle], [nothing], [triangle]], 0.5, form["none"])
    empty = replace(make_tensor([], dtype), parameter=make_tensor([], dtype).array)
    yield _ask("empty-tensor", "alone", dtype, [[empty]], 1.0, form["shape"])
    yield _ask("empty-tensor", "beside-others", dtype, [[empty], [triangle]], 0.5)
    scalars = [[_make_unit([value], dtype, 2.0, ())] for value in (3.0, -0.125)]
    yield _ask("zero-dimensional", "values", dtype, scalars, 0.5)
    yield _ask("zero-dimensional", "shape", dtype, scalars, 0.5, form["shape"])
    rows = [_make_unit([2.0, -4.0, 4.0, 0.0], dtype, norm) for norm in (2.0, 8.0)]
    filters = [_make_unit([2.0, -4.0, 4.0, 0.0, 0.0, 0.0], dtype, norm, (3, 1, 2)) for norm in (2.0, 16.0)]
    for name, limit in (("clipped", 0.5), ("not-clipped", 16.0)):
        yield _ask("shape-kept", name, dtype, [rows, [triangle], filters], limit, form["shape"])
        yield _ask("dtype-kept", name, dtype, [rows, [triangle]], limit, form["dtype"])
    yield _ask("dtype-accepted", "alone", dtype, [rows], 0.5, form["dtype"])
    for name, values in (("finite", [8.0, -0.0, 3.0]), ("nonfinite", [math.nan, -math.inf, 1.0])):
        excluded = _make_unit(values, dtype, 1.0, need_clip=False)
        yield _ask("excluded-untouched", name, dtype, [[triangle], [excluded]], 0.5, expect("untouched", indices=(1,)))


def _ask_effects(dtype: str) -> Iterator[Case]:
    rows = [_make_unit([2.0, -4.0, 4.0, 0.0], dtype, norm) for norm in (2.0, 8.0)]
    tensors = [[_make_unit([3.0, -4.0], dtype, 5.0)], rows]
    for name, factor in (("clipped", 0.5), ("not-clipped", 16.0)):
        for rule, expectation, needs in (
            ("inputs-not-mutated", "inputs-kept", ["functional"]),
            ("in-place-written", "inputs-written", ["in_place"]),
            ("results-independent", "no-shared-memory", []),
            ("surroundings-kept", "surroundings-kept", []),
        ):
            yield _ask(rule, name, dtype, tensors, factor, expect(expectation), needs)
    for name, factor in (("minus-one", -1.0), ("minus-infinity", -math.inf)):
        yield _ask("negative-threshold-refused", name, dtype, tensors, factor, expect("refused"))
