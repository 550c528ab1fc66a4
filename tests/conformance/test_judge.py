"""Check the judge on hand-made answers: each expectation, and each status by the neutral rule."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hand_made import CASES, build_case, find_status, judge_answers, make_array, make_reply

from gradclip_adapters.contract import Array, Reply
from gradclip_conformance.cases.build import VALUES, make_case, make_tensor
from gradclip_conformance.cases.model import Case, expect
from gradclip_conformance.judge.judging import follow_up
from gradclip_conformance.judge.model import Answer, Died, Raised, Replied, TimedOut
from gradclip_conformance.oracle import predict as oracles
from gradclip_conformance.oracle.formats import FORMATS, next_down, next_up
from gradclip_conformance.oracle.predict import predict

nan, inf = math.nan, math.inf

TRIANGLE = [3.0, 4.0]
HALF = [1.5, 2.0]
NEARLY_HALF = [1.5, next_up(2.0, "float32")]


def build_mixed_case(first: Sequence[float], second: Sequence[float], rule: str = "global-norm.mixed-dtypes") -> Case:
    """Return a case of a float16 and a float64 gradient."""
    gradients = [make_tensor(first, "float16"), make_tensor(second, "float64")]
    return make_case(rule, "hand-made", "float16+float64", gradients, {"clip_norm": 1.0}, VALUES)


class TestValues:
    def test_near_the_threshold_either_branch_passes(self) -> None:
        values = [1.0, 2.0, 4.0, 0.1015625]
        norm = float(np.float32(math.sqrt(math.fsum(x * x for x in values))))
        scaled = np.array(values, dtype=np.float32) * np.float32(1 - 2**-24)
        for threshold in (norm, next_up(norm, "float32"), next_down(norm, "float32")):
            asked = build_case(VALUES, values, clip_norm=threshold)

            assert find_status(asked, [values]) == "pass"
            assert find_status(asked, [scaled]) == "pass"

    @pytest.mark.parametrize("threshold", [5.0, next_up(5.0, "float32")])
    def test_at_an_exact_norm_only_one_branch_passes(self, threshold: float) -> None:
        asked = build_case(VALUES, TRIANGLE, clip_norm=threshold)

        assert find_status(asked, [TRIANGLE]) == "pass"
        assert find_status(asked, [[next_down(3.0, "float32"), 4.0]]) == "fail"

    def test_coarse_coefficient_for_mixed_dtypes_is_quality(self) -> None:
        asked = build_mixed_case([1.0, 0.5], [2.0, 1.0])
        coefficient = np.float16(1 / 2.5)
        narrow, wide = np.array([1.0, 0.5], np.float16) * coefficient, np.array([2.0, 1.0]) * float(coefficient)

        assert find_status(asked, [narrow, wide]) == "quality"
        assert find_status(asked, [narrow, [2.0, 1.0]]) == "fail"
        # The float64 gradient is off by many ulp, which float16 excuses. Nothing excuses the few ulp of the float16
        # gradient.
        found = judge_answers(asked, [np.array([0.4, 0.2], np.float16) + 40 * np.spacing(np.float16(0.4)), wide])
        assert (found.status, found.breaks, "gradient 0" in found.detail) == ("fail", None, True)

    def test_coarse_coefficient_does_not_excuse_a_clip_by_own_norm(self) -> None:
        asked = build_mixed_case(TRIANGLE, [2.0, 1.0], "norm.mixed-dtypes")
        coefficient = float(np.float16(1 / math.sqrt(5)))

        found = judge_answers(asked, [np.array([0.6, 0.8], np.float16), [2 * coefficient, coefficient]])
        assert (found.status, "gradient 1" in found.detail) == ("fail", True)

    def test_same_result_of_two_gradients_is_measured_twice(self) -> None:
        asked = build_case(VALUES, TRIANGLE, [6.0, 8.0], rule="norm.scaled-above", clip_norm=20.0)

        assert find_status(asked, [TRIANGLE, [6.0, 8.0]]) == "pass"
        assert find_status(asked, [TRIANGLE, TRIANGLE]) == "fail"
        # Both are wrong, and the second one is off by more ulp.
        assert "gradient 1" in judge_answers(asked, [[2.0, 4.0], TRIANGLE]).detail

    @pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
    def test_status_changes_at_the_budget_and_at_the_bound(self, dtype: str) -> None:
        asked = build_case(VALUES, TRIANGLE, dtype=dtype, clip_norm=2.5)
        (errors,) = predict(asked).errors
        ulp = 2.0 ** (1 - FORMATS[dtype].precision)
        statuses = [
            find_status(asked, [[1.5, 2.0 + 2 * math.floor(ulps) * ulp]])
            for ulps in (errors.clip_budget, errors.clip_budget + 1, errors.clip_bound, errors.clip_bound + 1)
        ]

        assert statuses == ["pass", "quality", "quality", "fail"]

    @pytest.mark.parametrize(
        ("result", "status"),
        [
            ([1.5, -2.0], "pass"),
            ([0.0, -0.0], "quality"),
            ([inf, -inf], "quality"),
            ([nan, nan], "quality"),
            ([3.0, -4.0], "fail"),
            ([-inf, inf], "fail"),
            ([0.0, nan], "fail"),
            ([0.0, -2.0], "fail"),
            ([1.625, -2.125], "fail"),
        ],
    )
    def test_result_of_a_step_that_leaves_the_range_is_quality(self, result: list[float], status: str) -> None:
        asked = build_case(expect("values", leaves_range=True), [3.0, -4.0], clip_norm=2.5)

        assert find_status(asked, [result]) == status

    @pytest.mark.parametrize(("size", "status"), [(2.0**14, "fail"), (65504.0, "quality")])
    def test_error_about_a_norm_that_leaves_the_range_is_quality(self, size: float, status: str) -> None:
        asked = build_case(expect("values", leaves_range=True), [size] * 2, dtype="float16", clip_norm=2.0**-11)

        assert find_status(asked, Raised("FloatingPointError", "")) == status

    @pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
    def test_coefficient_that_underflows_excuses_only_its_own_error(self, dtype: str) -> None:
        case = CASES[f"global-norm.coefficient-underflow/hardly-apart/{dtype}"]
        x, kind = case.gradients[0].array.numpy(), np.dtype(dtype).type  # type: ignore[union-attr]
        # The numbers are 3 and 4 times a power of two.
        poor = x * (kind(case.options["clip_norm"]) / kind(x[1] / 4 * 5))

        assert find_status(case, [poor]) == "quality"
        # These answers have another magnitude, another sign and another direction.
        assert find_status(case, [poor * kind(2)]) == "fail"
        assert find_status(case, [-poor]) == "fail"
        assert find_status(case, [poor * np.array([1, 0.75], dtype)]) == "fail"
        # Other rules excuse nothing.
        assert find_status(replace(case, rule="global-norm.scaled-above", expectation=VALUES), [poor]) == "fail"


class TestClipByValue:
    @pytest.mark.parametrize(
        ("low", "high", "expected"),
        [
            (-inf, 1.0, [1.0, -3.0, 0.5, 1.0, -inf, nan]),
            (-1.0, inf, [3.0, -1.0, 0.5, inf, -1.0, nan]),
            (-inf, inf, [3.0, -3.0, 0.5, inf, -inf, nan]),
        ],
    )
    def test_infinite_bound_limits_nothing(self, low: float, high: float, expected: list[float]) -> None:
        asked = build_case(VALUES, [3.0, -3.0, 0.5, inf, -inf, nan], rule="value.bounds", min=low, max=high)

        assert find_status(asked, [expected]) == "pass"
        assert find_status(asked, [[*expected[:3], 2.0**100, *expected[4:]]]) == "fail"

    @pytest.mark.parametrize(
        ("result", "low", "features", "status"),
        [
            ([-0.0, 1.0], -1.0, (), "pass"),
            ([0.0, 1.0], -1.0, (), "fail"),
            ([0.0, 1.0], -1.0, ("optimizer",), "pass"),
            # At a bound, the sign of a zero is free.
            ([0.0, 1.0], 0.0, (), "pass"),
            ([-0.0, next_down(1.0, "float32")], -1.0, (), "fail"),
        ],
    )
    def test_sign_of_a_zero_inside_must_stay(
        self, result: list[float], low: float, features: Sequence[str], status: str
    ) -> None:
        asked = build_case(VALUES, [-0.0, 2.0], rule="value.bounds", min=low, max=1.0)

        assert find_status(asked, [result], features=features) == status


UNIT, NORMAL, FLUSHES = 2.0**-149, 2.0**-126, ("flushes_subnormals",)


@pytest.mark.parametrize(
    ("given", "threshold", "result", "features", "status"),
    [
        ([48 * UNIT, -64 * UNIT], 40 * UNIT, [0.0, 0.0], (), "fail"),
        ([48 * UNIT, -64 * UNIT], 40 * UNIT, [0.0, 0.0], FLUSHES, "pass"),
        ([48 * UNIT, -64 * UNIT], 40 * UNIT, [1.0, 0.0], FLUSHES, "fail"),
        # The smallest normal number must not be flushed.
        ([3 * 2.0**-100, 4 * 2.0**-100], 1.25 * NORMAL, [0.75 * NORMAL, NORMAL], FLUSHES, "pass"),
        ([3 * 2.0**-100, 4 * 2.0**-100], 1.25 * NORMAL, [0.0, NORMAL], FLUSHES, "pass"),
        ([3 * 2.0**-100, 4 * 2.0**-100], 1.25 * NORMAL, [0.0, 0.0], FLUSHES, "fail"),
        ([3 * 2.0**-100, 4 * 2.0**-100], 1.25 * NORMAL, [NORMAL, NORMAL], FLUSHES, "fail"),
    ],
)
def test_flushing_fails_unless_it_is_declared(
    given: list[float], threshold: float, result: list[float], features: Sequence[str], status: str
) -> None:
    asked = build_case(expect("values", wide=True), given, clip_norm=threshold)

    assert find_status(asked, [result], features=features) == status


class TestReturnedNorm:
    @pytest.mark.parametrize(
        ("norm", "tensors", "dtype", "status"),
        [
            (make_array([5.0], shape=()), [TRIANGLE], "float32", "pass"),
            (make_array([5.0]), [TRIANGLE], "float32", "pass"),
            (make_array([5.0], "float64", ()), [TRIANGLE], "float32", "pass"),
            (make_array([5.0], "float64"), [TRIANGLE], "float32", "pass"),
            (Array.of(np.array(math.sqrt(14))), [[1.0, 2.0, 3.0]], "float32", "pass"),
            # A narrower norm loses digits.
            (Array.of(np.array(math.sqrt(14), np.float32)), [[1.0, 2.0, 3.0]], "float64", "fail"),
            (None, [TRIANGLE], "float32", "fail"),
            (make_array([5.0, 5.0]), [TRIANGLE], "float32", "fail"),
            (Array("complex64", (), b"\0" * 8), [TRIANGLE], "float32", "fail"),
            # The norm of no gradients may be an integer.
            (Array.of(np.array(0)), [], "float32", "pass"),
            (make_array([5.0]), [[nan, inf]], "float32", "fail"),
            (make_array([5.0]), [[inf, 1.0]], "float32", "fail"),
            # Infinity is right only beyond the range of the gradients.
            (make_array([inf], "float16"), [[60000.0, 60000.0]], "float16", "pass"),
            (make_array([inf], "float16"), [[300.0, 300.0]], "float16", "fail"),
            (make_array([inf], "float64"), [[2.0**1023] * 16], "float64", "pass"),
            # The norm is above the largest number, but rounds down to it.
            (make_array([inf], "float16"), [[65504.0, 700.0]], "float16", "fail"),
            (make_array([nan], "float16"), [[60000.0, 60000.0]], "float16", "fail"),
        ],
    )
    def test_norm_has_the_value_and_the_digits(
        self, norm: Array | None, tensors: list[list[float]], dtype: str, status: str
    ) -> None:
        # Under this threshold, the gradients themselves are the right results.
        asked = build_case(expect("returned-norm"), *tensors, dtype=dtype, clip_norm=inf)

        assert find_status(asked, make_reply(asked, tensors, norm=norm)) == status

    @pytest.mark.parametrize(
        ("given", "norm", "status"),
        [
            # With both a NaN and an infinity, the norm may be either.
            ("nan-and-infinity", nan, "pass"),
            ("nan-and-infinity", inf, "pass"),
            ("nan-and-infinity", -inf, "fail"),
            ("nan-and-infinity", 3.0, "fail"),
            ("nan", inf, "fail"),
            ("infinity", nan, "fail"),
        ],
    )
    def test_norm_that_is_not_finite(self, given: str, norm: float, status: str) -> None:
        case = CASES[f"global-norm.returned-norm-nonfinite/{given}/float32"]
        nans = [np.full(gradient.array.shape, nan, "float32") for gradient in case.gradients if gradient.array]

        assert find_status(case, nans, norm=norm) == status

    @pytest.mark.parametrize(
        ("values", "features", "status"),
        [
            ([nan], (), "pass"),
            ([inf, 1.0], (), "pass"),
            ([60000.0, 60000.0], (), "pass"),
            ([3.0, 4.0], (), "fail"),
            ([0.0], (), "fail"),
            ([60000.0, 20000.0], (), "fail"),
            ([65504.0], (), "fail"),
            ([nan], ("error_if_nonfinite",), "fail"),
        ],
    )
    def test_error_passes_only_if_the_dtype_cannot_hold_the_norm(
        self, values: list[float], features: Sequence[str], status: str
    ) -> None:
        asked = build_case(expect("returned-norm"), values, dtype="float16", clip_norm=1.0)

        assert find_status(asked, Raised("FloatingPointError", ""), features=features) == status


class TestUntouched:
    @pytest.mark.parametrize(
        ("given", "result", "features", "status"),
        [
            ([0.0, 1.0], [0.0, 1.0], (), "pass"),
            ([0.0, 1.0], [0.0, nan], (), "fail"),
            ([0.0, 1.0], [-0.0, 1.0], (), "fail"),
            ([0.0, 1.0], [-0.0, 1.0], ("optimizer",), "pass"),
            ([0.0, 1.0], [0.0, next_up(1.0, "float32")], ("optimizer",), "fail"),
            ([3.0, UNIT], [3.0, 0.0], (), "fail"),
            ([3.0, UNIT], [3.0, 0.0], FLUSHES, "pass"),
            ([3.0, UNIT], [0.0, UNIT], FLUSHES, "fail"),
        ],
    )
    def test_untouched_means_bit_for_bit(
        self, given: list[float], result: list[float], features: Sequence[str], status: str
    ) -> None:
        asked = build_case(expect("untouched", indices=(0,)), given, clip_norm=8.0)

        assert find_status(asked, [result], features=features) == status

    def test_nan_bits_are_lost_through_an_optimizer(self) -> None:
        asked = build_case(expect("untouched", indices=(1,)), TRIANGLE, [nan], excluded=(1,), clip_norm=1.0)
        results = [np.array([0.6, 0.8], np.float32), Array("float32", (1,), (0xFFC00001).to_bytes(4, "little"))]

        assert find_status(asked, results) == "fail"
        assert find_status(asked, results, features=("optimizer", "excludes")) == "pass"


class TestForm:
    @pytest.mark.parametrize(
        ("results", "said"),
        [
            ([TRIANGLE], "1 gradient came back for 2"),
            ([TRIANGLE, [0.0]], "was None and came back as an array"),
            ([None, None], "was an array and came back as None"),
            ([make_array(TRIANGLE, shape=(2, 1)), None], "shape"),
            ([Array("int64", (2,), bytes(16)), None], "int64"),
            ([make_array(TRIANGLE, "float64"), None], "came back as float64"),
            ([[0.75, nan], None], "Element 1 of gradient 0 is NaN or infinite"),
        ],
    )
    def test_detail_names_what_is_broken(self, results: list[Any], said: str) -> None:
        found = judge_answers(build_case(expect("structure", aspect="dtype"), TRIANGLE, None, clip_norm=1.0), results)

        assert found.status == "fail"
        assert said in found.detail

    def test_sparse_gradient_may_come_back_dense(self) -> None:
        sparse = replace(make_tensor(TRIANGLE, "float32", (2, 1)), rows=(0, 2), height=4)
        asked = make_case("global-norm.sparse-rows", "hand-made", "float32", [sparse], {"clip_norm": 2.5}, VALUES)

        assert find_status(asked, [make_array(HALF, shape=(2, 1))]) == "pass"
        assert find_status(asked, [make_array([1.5, 0.0, 2.0, 0.0], shape=(4, 1))]) == "pass"
        assert find_status(asked, [make_array([1.5, 0.0, 2.0, 1.0], shape=(4, 1))]) == "fail"


class TestNotSilent:
    @pytest.mark.parametrize(
        ("answer", "features", "status"),
        [
            ([[0.0, nan], [0.0]], (), "pass"),
            ([[nan, nan], [nan]], (), "pass"),
            ([[3.0, inf], [4.0]], (), "fail"),
            ([[0.0, nan], [4.0]], (), "fail"),
            ([[0.0, 0.0], [0.0]], (), "fail"),
            (Raised("RuntimeError", "not finite"), (), "pass"),
            (Raised("RuntimeError", "not finite"), ("error_if_nonfinite",), "fail"),
        ],
    )
    def test_nonfinite_norm_must_show_in_the_answer(self, answer: Any, features: Sequence[str], status: str) -> None:
        asked = build_case(expect("not-silent"), [3.0, inf], [4.0], clip_norm=1.0)

        assert find_status(asked, answer, features=features) == status

    @pytest.mark.parametrize(
        ("results", "status"),
        [
            ([[nan, nan], [nan, nan]], "pass"),
            # hypot(inf, NaN) is infinite: the finite elements become zeros.
            ([[0.0, nan], [nan, -0.0]], "pass"),
            ([[3.0, inf], [nan, -2.0]], "fail"),
            ([[0.0, nan], [nan, nan]], "fail"),
            ([[nan, nan], [nan, -0.0]], "fail"),
            ([[0.0, 0.0], [0.0, 0.0]], "fail"),
        ],
    )
    def test_elements_follow_the_norm_of_nan_or_that_of_infinity(self, results: Any, status: str) -> None:
        assert find_status("global-norm.nan-not-silent/beside-infinity/float32", results) == status

    def test_nan_in_one_gradient_does_not_affect_the_norm_of_another(self) -> None:
        asked = build_case(expect("not-silent"), [nan], TRIANGLE, rule="norm.nan-not-silent", clip_norm=2.5)

        assert find_status(asked, [[nan], HALF]) == "pass"
        assert find_status(asked, [[nan], [nan, nan]]) == "fail"


class TestEffects:
    @pytest.mark.parametrize(
        ("inputs", "kept", "written"),
        [(TRIANGLE, "pass", "fail"), (HALF, "fail", "pass"), (None, "unsupported", "unsupported")],
    )
    def test_inputs_are_kept_or_written(self, inputs: list[float] | None, kept: str, written: str) -> None:
        for name, status in (("inputs-kept", kept), ("inputs-written", written)):
            asked = build_case(expect(name), TRIANGLE, clip_norm=2.5)
            assert find_status(asked, make_reply(asked, [HALF], None if inputs is None else [inputs])) == status

    @pytest.mark.parametrize(
        ("same_as", "same_object", "detail"),
        [
            (None, (True, False), "The call changed gradient 1,"),
            # One of the two places of a gradient may have a copy as its result.
            (0, (True, False), ""),
            # The adapter does not say what the results are.
            (None, None, ""),
        ],
    )
    def test_changed_gradient_that_is_no_result_is_named(
        self, same_as: int | None, same_object: tuple[bool, ...] | None, detail: str
    ) -> None:
        case = build_case(VALUES, TRIANGLE, TRIANGLE, rule="norm.scaled-above", clip_norm=2.5)
        case = replace(case, gradients=(case.gradients[0], replace(case.gradients[1], same_as=same_as)))

        said = judge_answers(case, make_reply(case, [HALF, HALF], [HALF, HALF], same_object=same_object)).detail
        assert detail in said
        assert bool(said) == bool(detail)

    def test_sum_over_examples_is_no_gradient(self) -> None:
        case = build_case(VALUES, TRIANGLE, rule="per-example.scaled-above", clip_norm=2.5)

        assert judge_answers(case, make_reply(case, [HALF], [HALF])).breaks == "per-example.inputs-not-mutated"

    @pytest.mark.parametrize(
        ("second", "status", "behaviour"),
        [
            ([HALF], "pass", "other"),
            ([NEARLY_HALF], "fail", "other"),
            # The behaviour is that of the first call, unless the second one raised.
            ([TRIANGLE], "fail", "other"),
            (Raised("RuntimeError", ""), "fail", "raises:RuntimeError"),
            (Died("exit code -11"), "crash", "crash"),
            (TimedOut(3.0), "timeout", "timeout"),
        ],
    )
    def test_repeated_call_must_give_the_same_bits(
        self, second: Answer | list[Any], status: str, behaviour: str
    ) -> None:
        found = judge_answers(build_case(expect("repeatable"), TRIANGLE, clip_norm=2.5), [HALF], second)

        assert (found.status, found.behaviour) == (status, behaviour)

    def test_repetition_in_threads_is_described(self) -> None:
        asked = build_case(expect("repeatable", threads=8), TRIANGLE, clip_norm=2.5)

        second = follow_up(asked, make_reply(asked, [HALF]))
        found = judge_answers(asked, [HALF], [NEARLY_HALF])

        assert second is not None
        assert second.options == {"clip_norm": 2.5, "threads": 8}
        assert (found.status, "from 8 threads at once" in found.detail) == ("fail", True)


def test_answer_without_gradients_has_a_word_of_its_own() -> None:
    found = judge_answers(
        build_case(VALUES, TRIANGLE, clip_norm=1.0), Replied(Reply((), malformed="returned 'no list'"))
    )

    assert (found.status, found.behaviour) == ("fail", "malformed")


def test_threshold_that_must_be_refused_gives_no_norm() -> None:
    asked = build_case(expect("surroundings-kept"), TRIANGLE, clip_norm=-1.0)

    assert find_status(asked, make_reply(asked, [TRIANGLE], norm=make_array([5.0]), disturbed=())) == "pass"


def test_undefined_behaviour_is_recorded() -> None:
    asked = build_case(expect("recorded"), TRIANGLE, clip_norm=nan)

    assert find_status(asked, [[nan, nan]]) == "unspecified"
    assert find_status(asked, Raised("ValueError", "NaN")) == "unspecified"


def test_disagreement_of_the_oracles_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    liar = SimpleNamespace(clip_by_global_norm=lambda *_: None, describe_disagreement=lambda *_: "a lie")
    monkeypatch.setattr(oracles, "SECOND", liar)

    found = judge_answers(build_case(VALUES, [7.0, 24.0], clip_norm=2.75), [[0.75, 2.625]])

    assert found.status == "error"
    assert "oracles disagree" in found.detail
