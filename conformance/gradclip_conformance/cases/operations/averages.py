"""Make the cases of the operations whose norm is an average: block RMS and average norm.

The root mean square of m elements is their Euclidean norm divided by the root of m. Their average norm is that norm
divided by m. Almost all gradients here have 1, 4 or 16 elements, so that both divisions are exact. The numbers are
those of the cases of clips by norm.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from gradclip_adapters.contract import Gradient

from ...oracle.formats import FORMATS, next_down, next_up
from ..build import AVERAGES, DTYPES, list_digits, make_case, make_tensor, round_to_tensor
from ..model import Case, Expect, expect

__all__ = ["make_cases"]

#: 3, 4 and 5 times these powers of two are representable, but their squares overflow, or underflow to zero.
HUGE = {"float16": 2.0**7, "bfloat16": 2.0**65, "float32": 2.0**65, "float64": 2.0**600}
TINY = {"float16": 2.0**-14, "bfloat16": 2.0**-80, "float32": 2.0**-80, "float64": 2.0**-600}

KEPT = expect("untouched", indices=(0,))
VALUES = expect("values")


def make_cases() -> Iterator[Case]:
    """Yield all cases of these operations."""
    for operation in AVERAGES:
        for dtype in DTYPES:
            make = _Maker(operation, dtype)
            yield from _ask_formula(make)
            yield from _ask_each_alone(make)
            yield from _ask_zeros(make)
            yield from _ask_nonfinite(make)
            yield from _ask_range(make)
            yield from _ask_sums(make)
            yield from _ask_forms(make)
            yield from _ask_effects(make)


class _Maker:
    """The operation and the dtype of cases."""

    def __init__(self, operation: str, dtype: str) -> None:
        self.operation, self.dtype = operation, dtype

    def divide(self, norm: float, elements: int = 4) -> float:
        """Return the average that belongs to a Euclidean norm of this number of elements."""
        return norm / (math.sqrt(elements) if self.operation == "block-rms" else elements)

    def make_tensor(
        self, values: Sequence[float] | None, shape: tuple[int, ...] | None = None, **more: Any
    ) -> Gradient:
        """Return a gradient."""
        return make_tensor(values, self.dtype, shape, **more)

    def make_triangle(self, unit: float = 1.0) -> Gradient:
        """Return a gradient of four elements with the Euclidean norm 5."""
        return self.make_tensor([3 * unit, -4 * unit, 0.0, 0.0])

    def make_case(
        self,
        rule: str,
        variant: str,
        gradients: Sequence[Gradient],
        threshold: float,
        expectation: Expect = VALUES,
        needs: Sequence[str] = (),
    ) -> Case:
        """Return a case."""
        options = {"clip_norm": threshold}
        return make_case(f"{self.operation}.{rule}", variant, self.dtype, gradients, options, expectation, needs)


def _ask_formula(make: _Maker) -> Iterator[Case]:
    dtype, triangle = make.dtype, make.make_triangle()
    # For elements of this size, an epsilon of 1e-6 added to the norm changes the result in every dtype.
    small = 2.0**-8 if dtype == "float16" else 2.0**-18
    matrix = make.make_tensor([2.0, -4.0, 4.0, 0.0], (2, 2))
    sixteen = make.make_tensor([1.0, -2.0, 2.0, 0.0] * 4, (2, 2, 4))
    for name, gradient, threshold in (
        ("three-four-five", triangle, make.divide(1.0)),
        ("by-half", triangle, make.divide(2.5)),
        ("between-average-and-norm", triangle, make.divide(4.0)),
        ("small", make.make_triangle(small), make.divide(2.5 * small)),
        ("matrix", matrix, make.divide(2.0)),
        ("sixteen-elements", sixteen, make.divide(3.0, 16)),
        ("one-element", make.make_tensor([-6.0]), 2.0),
        ("uneven", make.make_tensor([1.0, -2.0, 3.0, -4.0, 5.0, -6.0, 7.0]), 1.0),
    ):
        yield make.make_case("scaled-above", name, [gradient], threshold)
    if dtype in ("float32", "float64"):
        long = round_to_tensor(np.tile([1.0, -2.0, 2.0], 3367), dtype)
        yield make.make_case("scaled-above", "ten-thousand-elements", [long], 2.0**-7)
    digits = make.make_tensor(list_digits(dtype))
    for name, gradient, threshold in (
        ("three-four-five", triangle, make.divide(8.0)),
        # The Euclidean norm is above the threshold, and the average is below.
        ("norm-above", triangle, 3.0),
        ("small", make.make_triangle(small), make.divide(8 * small)),
        ("every-digit", digits, 2.0),
        ("next-number", triangle, next_up(make.divide(5.0), dtype)),
        *((f"threshold-of-digits-{place}", digits, 2 * abs(list_digits(dtype)[place])) for place in (2, 11, 20)),
    ):
        yield make.make_case("identity-below", name, [gradient], threshold, KEPT)
    for name, gradient, threshold in (
        ("three-four-five", triangle, make.divide(5.0)),
        ("one-element", make.make_tensor([-0.75]), 0.75),
        ("small", make.make_triangle(small), make.divide(5 * small)),
    ):
        yield make.make_case("at-threshold", name, [gradient], threshold, KEPT)
    below = next_down(make.divide(5.0), dtype)
    yield make.make_case("scaled-above", "next-number", [triangle], below)


def _ask_each_alone(make: _Maker) -> Iterator[Case]:
    rule, little = "each-tensor-alone", make.make_tensor([0.5, -0.25, 0.0, 0.0])
    yield make.make_case(rule, "above-and-below", [make.make_triangle(), little], make.divide(1.0))
    twice = make.make_triangle(2.0)
    yield make.make_case(rule, "both-above", [make.make_triangle(), twice], make.divide(2.0))
    # The same elements among more zeros have a smaller average.
    longer = make.make_tensor([3.0, -4.0, *[0.0] * 14])
    yield make.make_case(rule, "two-lengths", [make.make_triangle(), longer], make.divide(5.0, 16))


def _ask_zeros(make: _Maker) -> Iterator[Case]:
    zeros, triangle = make.make_tensor([0.0, 0.0, -0.0, 0.0]), make.make_triangle()
    yield make.make_case("zero-gradient", "alone", [zeros], 1.0)
    yield make.make_case("zero-gradient", "beside-others", [zeros, triangle], make.divide(1.0))
    yield make.make_case("zero-gradient-zero-threshold", "alone", [zeros], 0.0)
    yield make.make_case("zero-threshold", "two-tensors", [triangle, make.make_tensor([0.5])], 0.0)


def _ask_nonfinite(make: _Maker) -> Iterator[Case]:
    visible, beside = expect("not-silent"), make.make_triangle()
    for rule, name, value in (
        ("nan-not-silent", "nan", math.nan),
        ("infinity-not-silent", "infinity", math.inf),
        ("infinity-not-silent", "minus-infinity", -math.inf),
    ):
        some = make.make_tensor([3.0, value, -1.0, 0.0])
        yield make.make_case(rule, name, [some], 1.0, visible)
        yield make.make_case(rule, f"{name}-beside-finite", [beside, some], make.divide(1.0), visible)
    yield make.make_case("infinite-threshold", "finite", [beside], math.inf, KEPT)


def _ask_range(make: _Maker) -> Iterator[Case]:
    exact = expect("values", wide=True)
    digits = abs(list_digits(make.dtype)[7]) * 8
    for rule, units in (("overflow-of-squares", HUGE), ("underflow-of-squares", TINY)):
        unit = units[make.dtype]
        triangle = make.make_triangle(unit)
        yield make.make_case(rule, "three-four-five", [triangle], make.divide(unit), exact)
        yield make.make_case(rule, "below", [triangle], make.divide(digits * unit), KEPT)


def _ask_sums(make: _Maker) -> Iterator[Case]:
    if FORMATS[make.dtype].precision > 11:
        return
    rule, exact = "half-not-accumulated-in-half", expect("values", wide=True)
    # A running sum of ones stops at 2048 with 11 bits, and at 256 with 8 bits. The sum of 256s leaves float16's range.
    for name, value in (("running-sum", 1.0), ("sum-out-of-range", 16.0)):
        constant = round_to_tensor(np.full(4096, value), make.dtype)
        yield make.make_case(rule, name, [constant], make.divide(16.0 * value, 4096), exact)


def _ask_forms(make: _Maker) -> Iterator[Case]:
    triangle, threshold = make.make_triangle(), make.divide(1.0)
    nothing, empty = make.make_tensor(None), make.make_tensor([])
    form = {aspect: expect("structure", aspect=aspect) for aspect in ("none", "shape", "dtype")}
    yield make.make_case("none-stays-none", "between", [triangle, nothing, triangle], threshold, form["none"])
    yield make.make_case("empty-tensor", "alone", [empty], threshold, form["shape"])
    yield make.make_case("empty-tensor", "beside-others", [make.make_tensor([], (0, 2)), triangle], threshold)
    scalars = [make.make_tensor([3.0], ()), make.make_tensor([-0.125], ())]
    yield make.make_case("zero-dimensional", "values", scalars, 1.0)
    yield make.make_case("zero-dimensional", "shape", scalars, 1.0, form["shape"])
    shapes = [make.make_tensor([2.0, -4.0, 4.0, 0.0], shape) for shape in ((2, 2), (1, 2, 1, 2))]
    for name, limit in (("clipped", threshold), ("not-clipped", 16.0)):
        yield make.make_case("shape-kept", name, shapes, limit, form["shape"])
        yield make.make_case("dtype-kept", name, shapes, limit, form["dtype"])
    yield make.make_case("dtype-accepted", "alone", shapes[:1], threshold, form["dtype"])
    for name, values in (("finite", [8.0, -0.0, 3.0, 1.0]), ("nonfinite", [math.nan, -math.inf, 1.0, 0.0])):
        excluded = make.make_tensor(values, need_clip=False)
        kept = expect("untouched", indices=(1,))
        yield make.make_case("excluded-untouched", name, [triangle, excluded], threshold, kept)


def _ask_effects(make: _Maker) -> Iterator[Case]:
    gradients = [make.make_triangle(), make.make_tensor([2.0, -4.0, 4.0, 0.0], (2, 2))]
    for name, threshold in (("clipped", make.divide(1.0)), ("not-clipped", 16.0)):
        for rule, expectation, needs in (
            ("inputs-not-mutated", "inputs-kept", ["functional"]),
            ("in-place-written", "inputs-written", ["in_place"]),
            ("results-independent", "no-shared-memory", []),
            ("surroundings-kept", "surroundings-kept", []),
        ):
            yield make.make_case(rule, name, gradients, threshold, expect(expectation), needs)
    for name, threshold in (("minus-one", -1.0), ("minus-infinity", -math.inf)):
        yield make.make_case("negative-threshold-refused", name, gradients, threshold, expect("refused"))
