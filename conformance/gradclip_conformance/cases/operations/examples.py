"""Make the cases of clips per example.

Each example holds the gradients of some tensors. Each element is zero in all examples but one (see `stacking`).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from gradclip_adapters.contract import Gradient

from ...oracle.formats import FORMATS, next_down, next_up
from ..build import DTYPES, list_digits, make_case, make_tensor, round_to_tensor
from ..model import Case, Expect, expect
from .averages import HUGE, TINY

__all__ = ["make_cases"]

VALUES = expect("values")


def make_cases() -> Iterator[Case]:
    """Yield all cases of this operation."""
    for dtype in DTYPES:
        yield from _ask_formula(dtype)
        yield from _ask_several_examples(dtype)
        yield from _ask_layers(dtype)
        yield from _ask_zeros(dtype)
        yield from _ask_nonfinite(dtype)
        yield from _ask_range(dtype)
        yield from _ask_forms(dtype)
        yield from _ask_effects(dtype)


def _ask(
    rule: str,
    variant: str,
    dtype: str,
    examples: Sequence[Sequence[Gradient]],
    threshold: float,
    expectation: Expect = VALUES,
    needs: Sequence[str] = (),
    **options: str,
) -> Case:
    """Return a case of some examples. Each example holds a gradient of each tensor."""
    gradients = [replace(one, group=number) for number, example in enumerate(examples) for one in example]
    every = {"clip_norm": threshold, **options}
    return make_case(f"per-example.{rule}", variant, dtype, gradients, every, expectation, needs)


def _keep(*indices: int) -> Expect:
    return expect("untouched", indices=indices)


def _ask_formula(dtype: str) -> Iterator[Case]:
    """Clip a single example."""
    small = 2.0**-8 if dtype == "float16" else 2.0**-18
    triangle, little = make_tensor([3.0, -4.0], dtype), make_tensor([3 * small, -4 * small], dtype)
    matrix = make_tensor([2.0, -4.0, 4.0, 0.0], dtype, (2, 2))
    for name, gradient, threshold in (
        ("three-four-five", triangle, 1.0),
        ("by-half", triangle, 2.5),
        ("small", little, 2.5 * small),
        ("matrix", matrix, 2.0),
        ("next-number", triangle, next_down(5.0, dtype)),
    ):
        yield _ask("scaled-above", name, dtype, [[gradient]], threshold)
    if dtype in ("float32", "float64"):
        long = round_to_tensor(np.tile([1.0, -2.0, 2.0], 3367), dtype)
        yield _ask("scaled-above", "ten-thousand-elements", dtype, [[long]], 1.0)
    digits = make_tensor(list_digits(dtype), dtype)
    for name, gradient, threshold in (
        ("three-four-five", triangle, 8.0),
        ("small", little, 8 * small),
        ("every-digit", digits, 8.0),
        ("next-number", triangle, next_up(5.0, dtype)),
        *((f"threshold-of-digits-{place}", digits, 8 * abs(list_digits(dtype)[place])) for place in (2, 11, 20)),
    ):
        yield _ask("identity-below", name, dtype, [[gradient]], threshold, _keep(0))
    for name, gradient, threshold in (("three-four-five", triangle, 5.0), ("small", little, 5 * small)):
        yield _ask("at-threshold", name, dtype, [[gradient]], threshold, _keep(0))


def _ask_several_examples(dtype: str) -> Iterator[Case]:
    """Clip several examples, some of them above the threshold, and examples of several tensors."""
    above, below = make_tensor([3.0, -4.0, 0.0, 0.0], dtype), make_tensor([0.0, 0.0, 0.5, 0.25], dtype)
    yield _ask("each-example-alone", "above-and-below", dtype, [[above], [below]], 1.0)
    far = make_tensor([0.0, 0.0, -12.0, 16.0], dtype)
    yield _ask("each-example-alone", "both-above", dtype, [[above], [far]], 2.5)
    yield _ask("each-example-alone", "only-together-above", dtype, [[above], [below]], 5.0, _keep(0, 1))
    # As many examples as elements in one of them.
    row = [make_tensor([8.0 * (place == number) for place in range(4)], dtype) for number in range(4)]
    yield _ask("each-example-alone", "as-many-as-elements", dtype, [[one] for one in row], 2.0)
    three = [make_tensor([4.0 * (place == number) for place in range(3)], dtype) for number in range(3)]
    yield _ask("sum-of-examples", "three-clipped", dtype, [[one] for one in three], 1.0)
    yield _ask("sum-of-examples", "three-kept", dtype, [[one] for one in three], 8.0, _keep(0, 1, 2))
    blocks = [make_tensor([2.0 * number, 0.0, 0.0, 2.0 - 2.0 * number], dtype, (2, 2)) for number in (0, 1)]
    yield _ask("sum-of-examples", "matrices", dtype, [[one] for one in blocks], 1.0)
    apart = [make_tensor([3.0], dtype), make_tensor([4.0, 0.0], dtype)]
    yield _ask("one-norm-over-all", "two-tensors", dtype, [apart], 1.0)
    yield _ask("one-norm-over-all", "each-below-alone", dtype, [apart], 4.5)
    yield _ask("one-norm-over-all", "below", dtype, [apart], 6.0, _keep(0, 1))
    other = [make_tensor([0.0], dtype), make_tensor([0.0, -0.5], dtype)]
    yield _ask("one-norm-over-all", "two-examples", dtype, [apart, other], 1.0)


def _ask_layers(dtype: str) -> Iterator[Case]:
    """Clip each gradient of an example to its share of the threshold."""
    for rule, layers, shapes, limits, above, one, first, second, more in (
        # Each of four layers has half of the threshold.
        (
            "layers-equal",
            "equal",
            [(2,), (3,), (1,), (2, 2)],
            (2.0, 2.0, 2.0, 2.0),
            (5.0, 0.5, 6.0, 2.0),
            (10.0, 0.5, 0.25, 1.0),
            (4.0, 0.5, 6.0, 1.0),
            (1.0, 8.0, 0.0, 4.0),
            (("two-layers", [(2,), (4,)], 2.0), ("three-layers", [(2,), (1,), (2, 3)], 3.0)),
        ),
        # 9, 4, 1, 1 and 1 elements have 3/4, 1/2, 1/4, 1/4 and 1/4 of the threshold.
        (
            "layers-by-size",
            "by size",
            [(3, 3), (4,), (1,), (1,), ()],
            (3.0, 2.0, 1.0, 1.0, 1.0),
            (5.0, 0.5, 6.0, 0.25, 1.0),
            (2.0, 10.0, 0.5, 1.0, 0.25),
            (4.0, 0.5, 6.0, 0.0, 1.0),
            (1.0, 8.0, 0.0, 2.0, 0.0),
            (("two-to-four", [(2,), (4,)], 2.0), ("nine-to-sixteen", [(3, 3), (16,)], 5.0)),
        ),
    ):
        every = _keep(*range(len(shapes)))
        for name, norms, threshold, expectation in (
            ("above-and-below", above, 4.0, VALUES),
            # The norm over all layers is below the threshold.
            ("one-layer-above", one, 16.0, VALUES),
            ("at-threshold", limits, 4.0, every),
            ("below", above, 64.0, every),
        ):
            example = _make_layers(shapes, norms, dtype)
            yield _ask(rule, name, dtype, [example], threshold, expectation, layers=layers)
        both = [_make_layers(shapes, first, dtype), _make_layers(shapes, second, dtype, last=True)]
        yield _ask(rule, "two-examples", dtype, both, 4.0, layers=layers)
        # Not all of these shares are exact.
        for name, others, threshold in (("one-layer", [(2,)], 2.5), *more):
            example = _make_layers(others, (5.0, 10.0, 4.0)[: len(others)], dtype)
            yield _ask(rule, name, dtype, [example], threshold, layers=layers)


def _make_layers(
    shapes: Sequence[tuple[int, ...]], norms: Sequence[float], dtype: str, *, last: bool = False
) -> list[Gradient]:
    """Return a layer of each shape and norm. Its first elements are not zero, or only its last ones."""
    layers = []
    for shape, norm in zip(shapes, norms, strict=True):
        size = math.prod(shape)
        some = [0.6 * norm, -0.8 * norm] if norm % 5 == 0 and size > 1 else [norm]
        rest = [0.0] * (size - len(some))
        layers.append(make_tensor([*rest, *some] if last else [*some, *rest], dtype, shape))
    return layers


def _ask_zeros(dtype: str) -> Iterator[Case]:
    zeros, triangle = make_tensor([0.0, 0.0], dtype), make_tensor([3.0, -4.0], dtype)
    yield _ask("zero-gradient", "alone", dtype, [[zeros]], 1.0)
    yield _ask("zero-gradient", "beside-another-example", dtype, [[zeros], [triangle]], 1.0)
    yield _ask("zero-gradient-zero-threshold", "alone", dtype, [[zeros]], 0.0)
    yield _ask("zero-gradient-zero-threshold", "beside-another-example", dtype, [[triangle], [zeros]], 0.0)
    yield _ask("zero-threshold", "one-example", dtype, [[triangle]], 0.0)


def _ask_nonfinite(dtype: str) -> Iterator[Case]:
    visible = expect("not-silent")
    for rule, name, value in (
        ("nan-not-silent", "nan", math.nan),
        ("infinity-not-silent", "infinity", math.inf),
        ("infinity-not-silent", "minus-infinity", -math.inf),
    ):
        yield _ask(rule, name, dtype, [[make_tensor([3.0, value, -1.0], dtype)]], 1.0, visible)
        some = [make_tensor([3.0, 4.0], dtype), make_tensor([value], dtype)]
        yield _ask(rule, f"{name}-in-another-tensor", dtype, [some], 1.0, visible)
    finite = [[make_tensor([3.0, -4.0], dtype)]]
    yield _ask("infinite-threshold", "finite", dtype, finite, math.inf, _keep(0))


def _ask_range(dtype: str) -> Iterator[Case]:
    exact, digits = expect("values", wide=True), abs(list_digits(dtype)[7]) * 8
    for rule, units in (("overflow-of-squares", HUGE), ("underflow-of-squares", TINY)):
        unit = units[dtype]
        triangle = [[make_tensor([3 * unit, -4 * unit], dtype)]]
        yield _ask(rule, "three-four-five", dtype, triangle, unit, exact)
        yield _ask(rule, "below", dtype, triangle, digits * unit, _keep(0))
    if FORMATS[dtype].precision > 11:
        return
    # A running sum of ones stops at 2048 with 11 bits, and at 256 with 8 bits. The sum of 256s leaves float16's range.
    for name, value in (("running-sum", 1.0), ("sum-out-of-range", 16.0)):
        constant = [[round_to_tensor(np.full(4096, value), dtype)]]
        yield _ask("half-not-accumulated-in-half", name, dtype, constant, value, exact)


def _ask_forms(dtype: str) -> Iterator[Case]:
    triangle, empty = make_tensor([3.0, -4.0], dtype), make_tensor([], dtype)
    form = {aspect: expect("structure", aspect=aspect) for aspect in ("shape", "dtype")}
    yield _ask("empty-tensor", "alone", dtype, [[empty]], 1.0, form["shape"])
    yield _ask("empty-tensor", "beside-others", dtype, [[empty, triangle]], 1.0)
    scalars = [[make_tensor([value], dtype, ())] for value in (3.0, 0.0)]
    yield _ask("zero-dimensional", "two-examples", dtype, scalars, 1.0)
    matrix = make_tensor([2.0, -4.0, 4.0, 0.0], dtype, (2, 2))
    for name, limit in (("clipped", 1.0), ("not-clipped", 16.0)):
        yield _ask("dtype-kept", name, dtype, [[matrix, triangle]], limit, form["dtype"])
    yield _ask("dtype-accepted", "alone", dtype, [[matrix]], 1.0, form["dtype"])


def _ask_effects(dtype: str) -> Iterator[Case]:
    first, second = make_tensor([3.0, -4.0, 0.0], dtype), make_tensor([0.0, 0.0, 0.5], dtype)
    for name, threshold in (("clipped", 1.0), ("not-clipped", 16.0)):
        for rule, expectation, needs in (
            ("inputs-not-mutated", "inputs-kept", ["functional"]),
            ("results-independent", "no-shared-memory", []),
            ("surroundings-kept", "surroundings-kept", []),
        ):
            yield _ask(rule, name, dtype, [[first], [second]], threshold, expect(expectation), needs)
    for name, threshold in (("minus-one", -1.0), ("minus-infinity", -math.inf)):
        yield _ask("negative-threshold-refused", name, dtype, [[first], [second]], threshold, expect("refused"))
