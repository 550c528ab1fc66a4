"""Check that the two oracles agree, and that a disagreement would be caught."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hand_made import decode_exactly
from hypothesis import given, settings
from hypothesis import strategies as st

from gradclip_conformance.oracle import integers as exact
from gradclip_conformance.oracle.arrays import decode
from gradclip_conformance.oracle.formats import FORMATS, compute_power_of_two, decode_bits, next_down, next_up
from gradclip_conformance.oracle.formula import Formula
from gradclip_conformance.oracle.model import Clipped, DyadicArray, Enclosure, ExpectedArray
from gradclip_conformance.oracle.predict import MANY

arbitrary_precision = pytest.importorskip(
    "gradclip_conformance.oracle.balls", reason="the second oracle needs python-flint", exc_type=ImportError
)

FORMULAS: tuple[dict[str, Any], ...] = (
    Formula("plain"),
    Formula("coefficient", 1e-6),
    Formula("max-denominator", 1e-6),
    Formula("min-numerator", 1e-7),
)
ORDERS = (0.5, 1.0, 1.5, 2.0, 2.5, 3.0, 4.0, 7.0, math.inf)


@st.composite
def draw_gradients(draw: st.DrawFn) -> tuple[list[DyadicArray], float]:
    """Draw finite tensors of one dtype, uniform over its bit patterns, and a threshold of the same dtype."""
    form = FORMATS[draw(st.sampled_from(sorted(FORMATS)))]
    bits = st.integers(0, form.infinity_bits - 1)
    signed = st.builds(lambda magnitude, negative: magnitude | form.sign_bit * negative, bits, st.booleans())
    tensors = draw(st.lists(st.lists(signed, max_size=5), max_size=3))
    dtype = f"<u{form.width // 8}"
    threshold = float(decode_bits(draw(bits), form))
    return [decode(np.array(tensor, dtype=dtype).tobytes(), form.name) for tensor in tensors], threshold


@pytest.mark.thorough(sample=9)
@pytest.mark.parametrize("formula", FORMULAS, ids=lambda formula: str(formula.kind))
@pytest.mark.parametrize("p", ORDERS)
@settings(max_examples=40)
@given(draw_gradients())
def test_clips_of_any_numbers_agree(p: float, formula: dict[str, Any], call: tuple[list[DyadicArray], float]) -> None:
    tensors, threshold = call
    first = exact.clip_by_global_norm(tensors, threshold, p, formula=formula)
    second = arbitrary_precision.clip_by_global_norm(tensors, threshold, p, formula=formula)

    assert arbitrary_precision.describe_disagreement(first, second) is None


@pytest.mark.thorough(sample=2)
@pytest.mark.parametrize("power", [1, 2])
@settings(max_examples=40)
@given(draw_gradients())
def test_clips_by_averages_of_any_numbers_agree(power: int, call: tuple[list[DyadicArray], float]) -> None:
    tensors, threshold = call
    for tensor in tensors:
        divisor = max(len(tensor), 1) ** power
        first = exact.clip_by_global_norm([tensor], threshold, divisor=divisor)
        second = arbitrary_precision.clip_by_global_norm([tensor], threshold, divisor=divisor)

        assert arbitrary_precision.describe_disagreement(first, second) is None


@pytest.mark.parametrize(
    ("values", "divisor", "average"),
    [
        ([3.0, 4.0, 0.0, 0.0], 4, Fraction(5, 2)),
        ([3.0, 4.0, 0.0, 0.0], 16, Fraction(5, 4)),
        # No binary number equals the average, but its square is known, and so is the side of every threshold.
        ([2.0, 0.0, 0.0], 9, Fraction(2, 3)),
        ([2.0, -2.0, 2.0], 3, Fraction(2)),
    ],
)
def test_averages_are_divided_exactly(values: list[float], divisor: int, average: Fraction) -> None:
    tensor = decode_exactly(*values)
    for oracle in (exact, arbitrary_precision):
        sides = [
            oracle.clip_by_global_norm([tensor], average + step, divisor=divisor).side
            for step in (-Fraction(1, 2**80), Fraction(1, 2**80))
        ]
        norm = oracle.clip_by_global_norm([tensor], 1.0, divisor=divisor).norm

        assert sides == [1, -1]
        assert norm.lower <= average <= norm.upper
        assert norm.upper - norm.lower <= average / 2**200
    at_average = exact.clip_by_global_norm([tensor], average, divisor=divisor)
    assert at_average.side == 0
    assert (at_average.norm.lower == at_average.norm.upper) == (average.denominator in (1, 2, 4))


@pytest.mark.parametrize("formula", FORMULAS, ids=lambda formula: str(formula.kind))
@pytest.mark.parametrize(
    ("values", "p", "norm"),
    [
        ([3.0, 4.0], 2.0, 5.0),
        ([3.0, 4.0], 1.0, 7.0),
        ([3.0, -4.0, 5.0], 3.0, 6.0),
        ([3.0, -4.0], math.inf, 4.0),
        ([1.0, 4.0], 0.5, 9.0),
        ([0.0], 2.0, 0.0),
    ],
)
def test_clips_at_and_next_to_the_threshold_agree(
    values: list[float], p: float, norm: float, formula: dict[str, Any]
) -> None:
    for threshold in (norm, next_up(norm, "float64"), next_down(norm, "float64"), 0.0, -1.0, math.inf):
        first = exact.clip_by_global_norm([decode_exactly(*values)], threshold, p, formula=formula)
        second = arbitrary_precision.clip_by_global_norm([decode_exactly(*values)], threshold, p, formula=formula)
        assert arbitrary_precision.describe_disagreement(first, second) is None, threshold


@pytest.mark.thorough(sample=2)
@pytest.mark.parametrize("p", ORDERS)
def test_clips_of_long_tensors_agree(p: float) -> None:
    """A run asks only the first oracle about so many elements (see `predict.MANY`)."""
    values = np.random.default_rng(5).standard_normal(2 * MANY).astype(np.float32)
    tensors = [decode(part.tobytes(), "float32") for part in np.split(values, [17, 4099])]
    for threshold in (1.5, 1e9):
        first, second = (oracle.clip_by_global_norm(tensors, threshold, p) for oracle in (exact, arbitrary_precision))
        assert arbitrary_precision.describe_disagreement(first, second) is None


@pytest.mark.parametrize(("large", "p"), [(1.0, 2.0), (2.0**1000, 7.0)])
def test_side_agrees_if_only_thousands_of_bits_decide(large: float, p: float) -> None:
    values = decode_exactly(large, 2.0**-1000)

    assert exact.clip_by_global_norm([values], large, p).side == 1
    assert arbitrary_precision.clip_by_global_norm([values], large, p).side == 1


@pytest.mark.thorough(sample=0)
@given(draw_gradients(), st.fractions(-4, 4), st.fractions(-4, 4))
def test_clips_by_value_agree(call: tuple[list[DyadicArray], float], low: Fraction, high: Fraction) -> None:
    for tensor in call[0]:
        first, second = (oracle.clip_by_value(tensor, low, high) for oracle in (exact, arbitrary_precision))
        assert first.list_fractions() == second.list_fractions()
        assert first.values.negative == second.values.negative


def test_oracles_agree_on_exclusion_and_none() -> None:
    tensors = [decode_exactly(3.0, math.inf), None, decode_exactly(2.0, -7.0)]
    clips = [
        oracle.clip_by_global_norm(tensors, 1.0, included=[False, True, True])
        for oracle in (exact, arbitrary_precision)
    ]

    assert arbitrary_precision.describe_disagreement(*clips) is None


@pytest.mark.parametrize("p", [0.3, math.pi, 2.718, 17.25])
def test_second_oracle_supports_other_norms(p: float) -> None:
    """Compare the second oracle's norm with the same sum in float64, and a clip with an exact value."""
    values = [3.0, -4.0, 0.5, 0.0]

    bounds = arbitrary_precision.compute_norm([decode_exactly(*values)], p)

    assert float(bounds.middle) == pytest.approx(sum(abs(x) ** p for x in values) ** (1 / p), rel=1e-13)
    assert bounds.upper - bounds.lower < bounds.lower / 2**280
    clipped = arbitrary_precision.clip_by_global_norm([decode_exactly(*values)], 1.0, p)
    (gradient,) = clipped.gradients
    assert float(gradient.list_fractions()[0] * bounds.middle) == 3.0


TINY = 1 + compute_power_of_two(-150)


@pytest.mark.parametrize(
    ("said", "change"),
    [
        ("norms do not overlap", lambda right: {"norm": Enclosure(right.norm.lower * TINY, right.norm.upper * TINY)}),
        ("side", lambda right: {"side": -right.side}),
        ("multiplied by", lambda right: {"gradients": tuple(one.multiply_by(TINY) for one in right.gradients)}),
        ("other values", lambda right: {"gradients": (ExpectedArray(decode_exactly(3.0, 6.0), Fraction(1, 5)),)}),
        ("one oracle only", lambda right: {"gradients": (None,)}),
    ],
    ids=["norm", "side", "factor", "values", "none"],
)
def test_smallest_error_of_an_oracle_is_caught(said: str, change: Callable[[Clipped], dict[str, Any]]) -> None:
    first, second = (
        oracle.clip_by_global_norm([decode_exactly(3.0, 5.0)], 1.0) for oracle in (exact, arbitrary_precision)
    )

    sentence = arbitrary_precision.describe_disagreement(replace(first, **change(first)), second)

    assert sentence is not None
    assert said in sentence


def test_second_oracle_answers_the_same_from_several_threads() -> None:
    tensors = [decode_exactly(*np.linspace(0.1, 7.0, 400))]

    def compute_norms(bits: int) -> list[Enclosure]:
        return [arbitrary_precision.compute_norm(tensors, 2.0, bits) for _ in range(100)]

    alone = {bits: compute_norms(bits)[0] for bits in (53, 2_000)}
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(2) as pool:
            together = dict(zip(alone, pool.map(compute_norms, alone), strict=True))
    finally:
        sys.setswitchinterval(before)

    assert {bits: set(found) for bits, found in together.items()} == {bits: {found} for bits, found in alone.items()}
