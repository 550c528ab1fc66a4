"""Check that predictions and error bounds hold for arithmetic in the dtype itself, and that the bounds are tight."""

from __future__ import annotations

import math
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import astuple, replace
from fractions import Fraction
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hand_made import build_case

from gradclip_adapters.contract import Array, Gradient
from gradclip_adapters.operations import PREFIXES
from gradclip_conformance.cases.build import VALUES, make_case, make_tensor
from gradclip_conformance.cases.catalogue import list_all_cases
from gradclip_conformance.judge.arrays import measure_norm_distance
from gradclip_conformance.oracle import predict as oracles
from gradclip_conformance.oracle.bounds import compute_error_bounds
from gradclip_conformance.oracle.distances import measure
from gradclip_conformance.oracle.formats import FORMATS
from gradclip_conformance.oracle.integers import NoExactNormError, clip_by_value
from gradclip_conformance.oracle.model import DyadicArray, ErrorBounds
from gradclip_conformance.oracle.predict import predict
from gradclip_conformance.oracle.question import find_narrowest

NUMPY = ("float16", "float32", "float64")


def compute_naive_norm(arrays: list[Any], p: float) -> Any:
    """Compute the norm in the dtype itself with running sums, first of each tensor, then over these norms."""
    kind = arrays[0].dtype.type
    norms: list[Any] = []
    for values in [*arrays, None]:
        elements = np.array(norms, dtype=arrays[0].dtype) if values is None else values
        total = kind(0)
        for element in np.abs(elements):
            total = kind(total + (element if p == 1 else element * element if p == 2 else element ** kind(p)))
        norms.append(total if p == 1 else np.sqrt(total) if p == 2 else total ** kind(1 / p))
    return norms[-1]


class TestErrorBounds:
    @pytest.mark.parametrize(
        ("operation", "p", "power"),
        [
            ("global-norm", 1.0, 0.0),
            ("global-norm", 2.0, 0.0),
            ("global-norm", 3.0, 0.0),
            ("block-rms", 2.0, 0.5),
            ("average-norm", 2.0, 1.0),
        ],
    )
    @pytest.mark.parametrize("dtype", NUMPY)
    def test_naive_norms_keep_to_the_bound(self, dtype: str, operation: str, p: float, power: float) -> None:
        """Each norm is divided by a power of the number of elements."""
        generator = np.random.default_rng(8)
        largest = 0.0
        for count in (1, 3, 30, 60) * 8:
            # All elements have the same sign and binade, so that the rounding errors of the running sum add up.
            tensors = 2 if PREFIXES[operation].is_global else 1
            arrays = [(1 + generator.random(count) / 64).astype(dtype) for _ in range(tensors)]
            values, rule = [array.tolist() for array in arrays], f"{operation}.scaled-above"
            asked = build_case(VALUES, *values, dtype=dtype, rule=rule, clip_norm=1e-3, norm_type=p)
            exact, kind = predict(asked).norms[0], arrays[0].dtype.type
            assert exact is not None
            naive = Array.of(np.asarray(kind(compute_naive_norm(arrays, p) / kind(count**power))))
            distance = measure_norm_distance(naive, exact.middle, dtype)

            assert distance <= predict(asked).widest.norm_bound
            largest = max(largest, distance / predict(asked).widest.norm_bound)
        assert largest > 0.02

    @pytest.mark.parametrize("dtype", NUMPY)
    def test_naive_unitwise_clips_keep_to_the_bound(self, dtype: str) -> None:
        generator = np.random.default_rng(12)
        for count in (1, 3, 30, 60) * 4:
            array, weight = ((1 + generator.random(count) / 64).astype(dtype) for _ in range(2))
            unit = Gradient("", Array.of(array), parameter=Array.of(weight))
            factor = float(np.float16(0.3))
            asked = make_case("unitwise.scaled-above", "hand-made", dtype, [unit], {"clip_factor": factor}, VALUES)
            limit = array.dtype.type(factor) * compute_naive_norm([weight], 2.0)
            naive = array * (limit / compute_naive_norm([array], 2.0))
            measured = measure(asked, predict(asked), [Array.of(naive)], [0])

            assert measured.ulp <= measured.bound
            assert measured.grade != "fail"

    @pytest.mark.parametrize(
        ("dtype", "p", "elements", "bounds"),
        [
            ("float64", 2.0, 10, ErrorBounds(2.0, 4.0, (10 + 1 + 2 + 2) / 2 + 1, (10 + 1 + 2 + 2) / 2 + 3)),
            # Magnitudes are not rounded.
            ("float16", math.inf, 10**6, ErrorBounds(0.0, 2.0, 0.0, 2.0)),
            # The sum is too long for float64.
            ("float64", 2.0, 2**53, ErrorBounds(2.0, 4.0, math.inf, math.inf)),
        ],
    )
    def test_bounds_are_counts_of_roundings(self, dtype: str, p: float, elements: int, bounds: ErrorBounds) -> None:
        found = compute_error_bounds(FORMATS[dtype], p, elements, 5.0)

        assert astuple(found) == pytest.approx(astuple(bounds), rel=0.01)

    def test_bound_of_a_long_sum_is_that_of_the_next_wider_format(self) -> None:
        in_its_own, in_single = (compute_error_bounds(FORMATS["bfloat16"], 2.0, n, 5.0) for n in (200, 300))

        # The error of a square counts half, because of the root. The errors of the two rounded norms count in full, and
        # the errors of float32 are negligible.
        assert in_single.norm_bound == pytest.approx(3, abs=0.05)
        assert in_its_own.norm_bound > 100
        assert in_single.norm_budget == in_its_own.norm_budget

    def test_squares_in_half_precision_added_up_in_single_precision_keep_the_bound(self) -> None:
        values = np.random.default_rng(20260729).uniform(0.5, 2.0, 60_000).astype(np.float16)
        asked = build_case(VALUES, values.tolist(), dtype="float16", clip_norm=1.0)
        exact = predict(asked).norms[0]
        assert exact is not None
        naive = np.sqrt(np.add.accumulate(values * values, dtype=np.float32)[-1]).astype(np.float16)

        assert measure_norm_distance(Array.of(naive), exact.middle, "float16") <= predict(asked).widest.norm_bound < 10

    def test_bounds_grow_with_the_elements_that_are_counted(self) -> None:
        few, many = [1.0] * 2, [1.0] * 200
        alone, excluded, both = (
            predict(build_case(VALUES, *tensors, excluded=[1], clip_norm=1.0)).widest.norm_bound
            for tensors in ([few], [few, many], [few, [], many])
        )
        apart = predict(build_case(VALUES, few, many, rule="norm.scaled-above", clip_norm=1.0)).errors

        assert alone == excluded < both
        assert apart[0].norm_bound < apart[1].norm_bound

    def test_no_gradients_have_no_rounding_error(self) -> None:
        asked = build_case(VALUES, rule="global-norm.empty-list", clip_norm=1.0)

        assert astuple(predict(asked).widest) == (0.0, 0.0, 0.0, 0.0)


# The square of a norm may need more digits than the norm.
SCALE = 1 + 2.0**-20


@pytest.mark.parametrize(
    ("tensors", "threshold", "is_near"),
    [
        ([[3.0, 4.0]], 5.0, False),
        ([[3 * SCALE, 4 * SCALE]], 5 * SCALE, True),
        ([[1.0, 1.0, 1.0, 1.0]], 2.0, False),
        # The norm of each tensor is irrational.
        ([[1.0, 1.0], [1.0, 1.0]], 2.0, True),
    ],
)
def test_norm_at_the_threshold_is_near_unless_it_is_exact(
    tensors: list[list[float]], threshold: float, is_near: bool
) -> None:
    assert set(predict(build_case(VALUES, *tensors, clip_norm=threshold)).near) == {is_near}


@pytest.mark.parametrize(
    ("gradients", "dtype"),
    [
        ([make_tensor([1.0], "float16", need_clip=False), make_tensor([1.0], "float64")], "float64"),
        # Without gradients, the dtype of the case counts.
        ([], "float16"),
    ],
    ids=["excluded", "none"],
)
def test_narrowest_dtype_is_that_of_included_gradients(gradients: list[Gradient], dtype: str) -> None:
    asked = make_case("global-norm.mixed-dtypes", "x", "float16+float64", gradients, {"clip_norm": 1.0}, VALUES)

    assert find_narrowest(asked) == dtype


class TestOracles:
    def test_other_orders_need_the_second_oracle(self, monkeypatch: pytest.MonkeyPatch) -> None:
        asked = build_case(VALUES, [1.0, 2.0], clip_norm=1.0, norm_type=2.2)
        if oracles.SECOND is not None:
            bounds = predict(asked).norms[0]
            assert bounds is not None
            assert float(bounds.middle) == pytest.approx((1 + 2**2.2) ** (1 / 2.2), rel=1e-14)
        monkeypatch.setattr(oracles, "SECOND", None)

        with pytest.raises(NoExactNormError):
            predict(replace(asked, options={"clip_norm": 1.0, "norm_type": 2.3}))
        assert oracles.name_second_oracle() == "not installed"

    def test_clip_by_value_on_which_the_oracles_disagree_is_an_error(self, monkeypatch: pytest.MonkeyPatch) -> None:
        liar = SimpleNamespace(
            clip_by_value=lambda values, low, high: clip_by_value(values, low, high + Fraction(1, 8))
        )
        monkeypatch.setattr(oracles, "SECOND", liar)

        with pytest.raises(oracles.OraclesDisagreeError, match="by value"):
            oracles._clip_by_value(DyadicArray([1, 9], 0, [False, False]), -2.0, 2.0)

    @pytest.mark.parametrize("count", [oracles.MANY, oracles.MANY + 1])
    def test_second_oracle_is_asked_about_few_elements(self, count: int, monkeypatch: pytest.MonkeyPatch) -> None:
        liar = SimpleNamespace(clip_by_global_norm=lambda *_: None, describe_disagreement=lambda *_: "a lie")
        monkeypatch.setattr(oracles, "SECOND", liar)
        call = build_case(VALUES, [0.375] * count, clip_norm=float(count))

        if count > oracles.MANY:
            assert predict(call).norms[0] is not None
        else:
            with pytest.raises(oracles.OraclesDisagreeError, match="a lie"):
                predict(call)


#: The cases with a defined answer. A norm of order 0 or below has none.
ANSWERED = [each for each in list_all_cases() if each.norm_type > 0]


@pytest.mark.thorough(sample=0)
def test_every_case_has_a_prediction_with_an_error_bound() -> None:
    assert len(ANSWERED) > 1000
    for each in ANSWERED:
        prediction = predict(each)
        assert math.isfinite(prediction.widest.clip_bound), each.id
        # The elements of larger gradients take seconds.
        if sum(len(g.array.data) for g in each.gradients if g.array) < 10_000:
            assert len(prediction.gradients) == len(each.gradients) == len(prediction.errors), each.id


@pytest.mark.thorough(sample=0)
def test_many_threads_may_predict_at_once() -> None:
    """Make more predictions than the cache holds, from threads that switch as often as possible."""
    tensors = [make_tensor([3.0, 4.0], "float32")]
    asked = [make_case("value.bounds", f"x{i}", "float32", tensors, {"max": 1 + i / 4096}, VALUES) for i in range(6000)]
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(8) as pool:
            found = list(pool.map(predict, asked))
    finally:
        sys.setswitchinterval(interval)

    for one, prediction in zip(asked[::500], found[::500], strict=True):
        (gradient,) = prediction.gradients
        assert gradient is not None
        assert gradient.list_fractions() == [Fraction(min(x, one.options["max"])) for x in (3, 4)]


def test_units_with_equal_gradients_have_limits_of_their_own() -> None:
    array = Array.of(np.array([3.0, -4.0]))
    units = [
        Gradient("", array, parameter=Array.of(np.array([norm, 0.0])), group=group)
        for group, norm in enumerate((2.0, 20.0, 0.25))
    ]
    asked = make_case(
        "unitwise.each-unit-alone", "hand-made", "float64", units, {"clip_factor": 0.5, "eps": 0.5}, VALUES
    )
    prediction = predict(asked)
    right = [[0.6, -0.8], [3.0, -4.0], [0.15, -0.2]]
    results = [Array.of(np.array(values)) for values in right]

    for expected, values in zip(prediction.gradients, right, strict=True):
        assert expected is not None
        assert [float(one) for one in expected.list_fractions()] == values
    assert measure(asked, prediction, results, range(3)).grade == "pass"
    # Many gradients are equal, so distances are kept. The limit belongs to what they are kept by.
    assert measure(asked, prediction, [results[0], results[0], results[2]], range(3)).grade == "fail"
