"""Check the judge on hand-made answers: each expectation, each status, and each excuse for an answer."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hand_made import find_status, judge_answers, make_subject

from gradclip_adapters.contract import Array, Reply
from gradclip_conformance.cases.build import make_case, make_tensor
from gradclip_conformance.cases.model import Case, Expect, expect
from gradclip_conformance.judge.judging import follow_up
from gradclip_conformance.judge.model import (
    Answer,
    Claim,
    Died,
    Raised,
    Replied,
    TimedOut,
    Verdict,
)
from gradclip_conformance.oracle import predict as oracles
from gradclip_conformance.oracle.formats import FORMATS, encode, next_down, next_up
from gradclip_conformance.oracle.formula import Formula
from gradclip_conformance.oracle.model import Clipped
from gradclip_conformance.oracle.predict import predict

nan, inf = math.nan, math.inf


def make_array(values: Sequence[float], dtype: str = "float32", shape: tuple[int, ...] | None = None) -> Array:
    """Return an array of these values."""
    return Array(dtype, (len(values),) if shape is None else shape, encode(values, dtype))


def round_array(values: Sequence[float], dtype: str = "float32") -> Array:
    """Return an array of these values, each rounded to the dtype."""
    return Array.of(np.array(values, dtype=dtype))


def build_case(
    expectation: Expect,
    *tensors: Sequence[float] | None,
    dtype: str = "float32",
    rule: str = "global-norm.scaled-above",
    excluded: Sequence[int] = (),
    **options: float,
) -> Case:
    """Return a case of one-dimensional gradients."""
    gradients = [make_tensor(values, dtype, need_clip=i not in excluded) for i, values in enumerate(tensors)]
    return make_case(rule, "hand-made", dtype, gradients, options, expectation)


def build_mixed_case(first: Sequence[float], second: Sequence[float], rule: str = "global-norm.mixed-dtypes") -> Case:
    """Return a case of a float16 and a float64 gradient."""
    gradients = [make_tensor(first, "float16"), make_tensor(second, "float64")]
    return make_case(rule, "hand-made", "float16+float64", gradients, {"clip_norm": 1.0}, expect("values"))


TRIANGLE = [3.0, 4.0]


class TestValues:
    def test_near_the_threshold_either_branch_passes(self) -> None:
        values = [1.0, 2.0, 4.0, 0.1015625]
        norm = float(np.float32(math.sqrt(math.fsum(x * x for x in values))))
        scaled = np.array(values, dtype=np.float32) * np.float32(1 - 2**-24)
        for threshold in (norm, next_up(norm, "float32"), next_down(norm, "float32")):
            asked = build_case(expect("values"), values, clip_norm=threshold)

            assert find_status(asked, [make_array(values)]) == "pass"
            assert find_status(asked, [Array.of(scaled)]) == "pass"

    @pytest.mark.parametrize("threshold", [5.0, next_up(5.0, "float32")])
    def test_at_an_exact_norm_only_one_branch_passes(self, threshold: float) -> None:
        asked = build_case(expect("values"), TRIANGLE, clip_norm=threshold)

        assert find_status(asked, [make_array(TRIANGLE)]) == "pass"
        assert find_status(asked, [make_array([next_down(3.0, "float32"), 4.0])]) == "fail"

    def test_norm_that_needs_rounded_squares_is_not_exact(self) -> None:
        # The norm, 5 times the scale, is representable. The square of the norm is not representable.
        scale = 1 + 2.0**-20
        asked = build_case(expect("values"), [3 * scale, 4 * scale], clip_norm=5 * scale)

        assert predict(asked).near == (True,)
        assert predict(build_case(expect("values"), TRIANGLE, clip_norm=5.0)).near == (False,)

    def test_total_norm_of_tensors_with_irrational_norms_is_not_exact(self) -> None:
        assert predict(build_case(expect("values"), [1.0, 1.0], [1.0, 1.0], clip_norm=2.0)).near == (True, True)
        assert predict(build_case(expect("values"), [1.0, 1.0, 1.0, 1.0], clip_norm=2.0)).near == (False,)

    def test_coarse_coefficient_for_mixed_dtypes_is_quality(self) -> None:
        asked = build_mixed_case([1.0, 0.5], [2.0, 1.0])
        coefficient = np.float16(1 / 2.5)
        results = [np.array([1.0, 0.5], dtype=np.float16) * coefficient, np.array([2.0, 1.0]) * float(coefficient)]

        assert find_status(asked, [Array.of(result) for result in results]) == "quality"
        assert find_status(asked, [Array.of(results[0]), make_array([2.0, 1.0], "float64")]) == "fail"

    def test_coarse_coefficient_does_not_excuse_a_clip_by_own_norm(self) -> None:
        asked = build_mixed_case([3.0, 4.0], [2.0, 1.0], "norm.mixed-dtypes")
        coefficient = float(np.float16(1 / math.sqrt(5)))

        found = judge_answers(
            asked, [round_array([0.6, 0.8], "float16"), make_array([2 * coefficient, coefficient], "float64")]
        )
        assert (found.status, "gradient 1" in found.detail) == ("fail", True)

    def test_worst_status_counts_before_the_most_ulp(self) -> None:
        asked = build_mixed_case([1.0, 0.5], [2.0, 1.0])
        coefficient = float(np.float16(1 / 2.5))
        # The float64 gradient is off by many ulp, which float16 excuses. Nothing excuses the few ulp of the float16
        # gradient.
        off = np.array([0.4, 0.2], np.float16) + 40 * np.spacing(np.float16(0.4))
        found = judge_answers(asked, [Array.of(off), make_array([2 * coefficient, coefficient], "float64")])
        assert (found.status, "gradient 0" in found.detail) == ("fail", True)

        found = judge_answers(
            build_case(expect("values"), TRIANGLE, TRIANGLE, clip_norm=2.5),
            [make_array([2.0, 2.0]), make_array(TRIANGLE)],
        )
        assert "gradient 1" in found.detail

    def test_same_result_of_two_gradients_is_measured_twice(self) -> None:
        asked = build_case(expect("values"), TRIANGLE, [6.0, 8.0], rule="norm.scaled-above", clip_norm=20.0)

        assert find_status(asked, [make_array(TRIANGLE), make_array([6.0, 8.0])]) == "pass"
        assert find_status(asked, [make_array(TRIANGLE), make_array(TRIANGLE)]) == "fail"

    @pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
    def test_status_changes_at_the_budget_and_at_the_bound(self, dtype: str) -> None:
        asked = build_case(expect("values"), TRIANGLE, dtype=dtype, clip_norm=2.5)
        (errors,) = predict(asked).errors
        ulp = 2.0 ** (1 - FORMATS[dtype].precision)
        statuses = [
            find_status(asked, [make_array([1.5, 2.0 + 2 * math.floor(ulps) * ulp], dtype)])
            for ulps in (errors.clip_budget, errors.clip_budget + 1, errors.clip_bound, errors.clip_bound + 1)
        ]

        assert statuses == ["pass", "quality", "quality", "fail"]

    def test_result_of_another_dtype_breaks_the_rule_about_dtypes(self) -> None:
        found = judge_answers(
            build_case(expect("values"), TRIANGLE, clip_norm=2.5), [make_array([1.5, 2.0], "float64")]
        )

        assert (found.status, found.breaks) == ("fail", "global-norm.dtype-kept")

    @pytest.mark.parametrize(
        ("result", "status"),
        [
            ([1.5, -2.0], "pass"),
            ([0.0, -0.0], "quality"),
            ([inf, -inf], "quality"),
            ([nan, nan], "quality"),
            (None, "fail"),
            ([-inf, inf], "fail"),
            ([0.0, nan], "fail"),
            ([0.0, -2.0], "fail"),
            ([1.625, -2.125], "fail"),
        ],
    )
    def test_result_of_a_step_that_leaves_the_range_is_quality(self, result: list[float] | None, status: str) -> None:
        given = [3.0, -4.0]
        asked = build_case(expect("values", leaves_range=True), given, clip_norm=2.5)

        assert find_status(asked, [make_array(result or given)]) == status

    @pytest.mark.parametrize(("size", "status"), [(2.0**14, "fail"), (65504.0, "quality")])
    def test_error_about_a_norm_that_leaves_the_range_is_quality(self, size: float, status: str) -> None:
        asked = build_case(expect("values", leaves_range=True), [size] * 2, dtype="float16", clip_norm=2.0**-11)

        assert find_status(asked, Raised("FloatingPointError", "")) == status


class TestClipByValue:
    @staticmethod
    def build_bounded_case(*values: float, **bounds: float) -> Case:
        return make_case(
            "value.bounds", "hand-made", "float32", [make_tensor(values, "float32")], dict(bounds), expect("values")
        )

    @pytest.mark.parametrize(
        ("low", "high", "expected"),
        [
            (-inf, 1.0, [1.0, -3.0, 0.5, 1.0, -inf, nan]),
            (-1.0, inf, [3.0, -1.0, 0.5, inf, -1.0, nan]),
            (-inf, inf, [3.0, -3.0, 0.5, inf, -inf, nan]),
        ],
    )
    def test_infinite_bound_limits_nothing(self, low: float, high: float, expected: list[float]) -> None:
        asked = self.build_bounded_case(3.0, -3.0, 0.5, inf, -inf, nan, min=low, max=high)

        assert find_status(asked, [make_array(expected)]) == "pass"
        assert find_status(asked, [make_array([*expected[:3], 2.0**100, *expected[4:]])]) == "fail"

    def test_sign_of_a_zero_inside_must_stay(self) -> None:
        asked = self.build_bounded_case(-0.0, 2.0, max=1.0)

        assert find_status(asked, [make_array([-0.0, 1.0])]) == "pass"
        assert find_status(asked, [make_array([0.0, 1.0])]) == "fail"
        through = make_subject("clip_by_value", "optimizer")
        assert find_status(asked, [make_array([0.0, 1.0])], subject=through) == "pass"

    def test_sign_of_a_zero_at_a_bound_is_free(self) -> None:
        assert find_status(self.build_bounded_case(-0.0, 2.0, min=0.0, max=1.0), [make_array([0.0, 1.0])]) == "pass"

    def test_one_ulp_off_fails(self) -> None:
        found = judge_answers(self.build_bounded_case(3.0, max=1.0), [make_array([next_down(1.0, "float32")])])

        assert found.status == "fail"


class TestSubnormals:
    unit = 2.0**-149

    def test_flushing_fails_unless_it_is_declared(self) -> None:
        asked = build_case(expect("values", wide=True), [48 * self.unit, -64 * self.unit], clip_norm=40 * self.unit)
        flushed = [make_array([0.0, 0.0])]

        assert find_status(asked, flushed) == "fail"
        declared = make_subject("clip_by_global_norm", "flushes_subnormals")
        assert find_status(asked, flushed, subject=declared) == "pass"
        assert find_status(asked, [make_array([1.0, 0.0])], subject=declared) == "fail"

    def test_smallest_normal_number_must_not_be_flushed(self) -> None:
        normal = 2.0**-126
        asked = build_case(expect("values", wide=True), [3 * 2.0**-100, 4 * 2.0**-100], clip_norm=5 * normal / 4)
        declared = make_subject("clip_by_global_norm", "flushes_subnormals")

        results = ([0.75 * normal, normal], [0.0, normal], [0.0, 0.0], [normal, normal])
        found = [find_status(asked, [make_array(result)], subject=declared) for result in results]
        assert found == ["pass", "pass", "fail", "fail"]

    def test_untouched_gradients_may_lose_subnormals_only(self) -> None:
        asked = build_case(expect("untouched", indices=(0,)), [3.0, self.unit], clip_norm=8.0)
        declared = make_subject("clip_by_global_norm", "flushes_subnormals")

        assert find_status(asked, [make_array([3.0, 0.0])]) == "fail"
        assert find_status(asked, [make_array([3.0, 0.0])], subject=declared) == "pass"
        assert find_status(asked, [make_array([0.0, self.unit])], subject=declared) == "fail"


class TestReturnedNorm:
    @staticmethod
    def judge_norm(norm: Array | None, *tensors: Sequence[float], dtype: str = "float32") -> str:
        # Under this threshold, the gradients themselves are the right results.
        asked = build_case(expect("returned-norm"), *tensors, dtype=dtype, clip_norm=inf)
        gradients = tuple(gradient.array for gradient in asked.gradients)
        return find_status(asked, Replied(Reply(gradients, norm)))

    def test_dtypes_as_wide_as_the_gradients_pass(self) -> None:
        for dtype in ("float32", "float64"):
            assert self.judge_norm(make_array([5.0], dtype, ()), TRIANGLE) == "pass"
            assert self.judge_norm(make_array([5.0], dtype), TRIANGLE) == "pass"

    def test_narrower_norm_loses_digits(self) -> None:
        values = [1.0, 2.0, 3.0]
        exact = math.sqrt(14)

        assert self.judge_norm(round_array([exact]), values, dtype="float64") == "fail"
        assert self.judge_norm(round_array([exact], "float64"), values, dtype="float32") == "pass"

    def test_none_and_several_numbers_fail(self) -> None:
        assert self.judge_norm(None, TRIANGLE) == "fail"
        assert self.judge_norm(make_array([5.0, 5.0]), TRIANGLE) == "fail"
        assert self.judge_norm(Array("complex64", (), b"\0" * 8), TRIANGLE) == "fail"

    def test_integer_zero_as_the_norm_of_no_gradients_passes(self) -> None:
        assert self.judge_norm(Array.of(np.array(0))) == "pass"

    @pytest.mark.parametrize(("values", "norm"), [([nan, inf], nan), ([inf, 1.0], inf)])
    def test_nonfinite_norm_must_be_returned(self, values: list[float], norm: float) -> None:
        assert self.judge_norm(make_array([norm], shape=()), values) == "pass"
        assert self.judge_norm(make_array([5.0], shape=()), values) == "fail"

    def test_infinity_passes_only_beyond_the_gradients_range(self) -> None:
        assert self.judge_norm(make_array([inf], "float16", ()), [60000.0, 60000.0], dtype="float16") == "pass"
        assert self.judge_norm(make_array([inf], "float16", ()), [300.0, 300.0], dtype="float16") == "fail"
        assert self.judge_norm(make_array([inf], "float64", ()), [2.0**1023] * 16, dtype="float64") == "pass"
        # The norm is above the largest number, but rounds down to it.
        assert self.judge_norm(make_array([inf], "float16", ()), [65504.0, 700.0], dtype="float16") == "fail"
        assert self.judge_norm(make_array([nan], "float16", ()), [60000.0, 60000.0], dtype="float16") == "fail"

    def test_error_passes_only_if_the_dtype_cannot_hold_the_norm(self) -> None:
        def judge_error(*values: float, features: Sequence[str] = ()) -> str:
            asked = build_case(expect("returned-norm"), values, dtype="float16", clip_norm=1.0)
            about = make_subject("clip_by_global_norm", *features)
            return find_status(asked, Raised("FloatingPointError", ""), subject=about)

        assert [judge_error(nan), judge_error(inf, 1.0), judge_error(60000.0, 60000.0)] == ["pass"] * 3
        assert [judge_error(3.0, 4.0), judge_error(0.0), judge_error(60000.0, 20000.0), judge_error(65504.0)] == [
            "fail"
        ] * 4
        assert judge_error(nan, features=["error_if_nonfinite"]) == "fail"


class TestUntouched:
    def test_detail_names_nan(self) -> None:
        asked = build_case(expect("untouched", indices=(0,)), [0.5, 1.0], clip_norm=8.0)
        scaled = build_case(expect("values"), TRIANGLE, clip_norm=1.0)

        assert "Element 1 of gradient 0 is NaN or infinite" in judge_answers(scaled, [make_array([0.75, nan])]).detail
        assert find_status(asked, [make_array([0.5, nan])]) == "fail"

    def test_untouched_means_bit_for_bit(self) -> None:
        asked = build_case(expect("untouched", indices=(0,)), [0.0, 1.0], clip_norm=8.0)

        assert find_status(asked, [make_array([0.0, 1.0])]) == "pass"
        assert find_status(asked, [make_array([-0.0, 1.0])]) == "fail"
        through = make_subject("clip_by_global_norm", "optimizer")
        assert find_status(asked, [make_array([-0.0, 1.0])], subject=through) == "pass"
        assert find_status(asked, [make_array([0.0, next_up(1.0, "float32")])], subject=through) == "fail"

    def test_nan_bits_are_lost_through_an_optimizer(self) -> None:
        asked = build_case(expect("untouched", indices=(1,)), TRIANGLE, [nan], excluded=(1,), clip_norm=1.0)
        other_nan = Array("float32", (1,), (0xFFC00001).to_bytes(4, "little"))
        through = make_subject("clip_by_global_norm", "optimizer", "excludes")

        assert find_status(asked, [round_array([0.6, 0.8]), other_nan]) == "fail"
        assert find_status(asked, [round_array([0.6, 0.8]), other_nan], subject=through) == "pass"

    def test_same_bits_of_another_dtype_are_not_the_same(self) -> None:
        asked = build_case(expect("untouched", indices=(0,)), [1.0], dtype="float16", clip_norm=8.0)

        assert find_status(asked, [make_array([1.0], "float16")]) == "pass"
        assert find_status(asked, [Array("bfloat16", (1,), make_array([1.0], "float16").data)]) == "fail"


class TestForm:
    asked = build_case(expect("structure", aspect="dtype"), TRIANGLE, None, clip_norm=1.0)

    @pytest.mark.parametrize(
        ("results", "said"),
        [
            ([make_array(TRIANGLE)], "1 gradient came back for 2"),
            ([make_array(TRIANGLE), make_array([0.0])], "was None and came back as an array"),
            ([None, None], "was an array and came back as None"),
            ([make_array(TRIANGLE, shape=(2, 1)), None], "shape"),
            ([Array("int64", (2,), bytes(16)), None], "int64"),
            ([make_array(TRIANGLE, "float64"), None], "came back as float64"),
        ],
    )
    def test_detail_names_the_broken_form(self, results: list[Array | None], said: str) -> None:
        found = judge_answers(self.asked, results)

        assert found.status == "fail"
        assert said in found.detail

    def test_sparse_gradient_may_come_back_dense(self) -> None:
        sparse = replace(make_tensor([3.0, 4.0], "float32", (2, 1)), rows=(0, 2), height=4)
        asked = make_case(
            "global-norm.sparse-rows", "hand-made", "float32", [sparse], {"clip_norm": 2.5}, expect("values")
        )

        assert find_status(asked, [make_array([1.5, 2.0], shape=(2, 1))]) == "pass"
        assert find_status(asked, [make_array([1.5, 0.0, 2.0, 0.0], shape=(4, 1))]) == "pass"
        assert find_status(asked, [make_array([1.5, 0.0, 2.0, 1.0], shape=(4, 1))]) == "fail"


class TestNotSilent:
    asked = build_case(expect("not-silent"), [3.0, inf], [4.0], clip_norm=1.0)

    @pytest.mark.parametrize(
        ("answer", "status"),
        [
            ([make_array([0.0, nan]), make_array([0.0])], "pass"),
            ([make_array([nan, nan]), make_array([nan])], "pass"),
            ([make_array([3.0, inf]), make_array([4.0])], "fail"),
            ([make_array([0.0, nan]), make_array([4.0])], "fail"),
            ([make_array([0.0, 0.0]), make_array([0.0])], "fail"),
            (Raised("RuntimeError", "not finite"), "pass"),
        ],
    )
    def test_nonfinite_norm_must_show_in_the_answer(self, answer: Any, status: str) -> None:
        assert find_status(self.asked, answer) == status

    def test_error_fails_if_there_is_an_option_for_it(self) -> None:
        about = make_subject("clip_by_global_norm", "error_if_nonfinite")

        assert find_status(self.asked, Raised("RuntimeError", "not finite"), subject=about) == "fail"

    def test_nan_in_one_gradient_does_not_affect_the_norm_of_another(self) -> None:
        asked = build_case(expect("not-silent"), [nan], TRIANGLE, rule="norm.nan-not-silent", clip_norm=2.5)

        assert find_status(asked, [make_array([nan]), make_array([1.5, 2.0])]) == "pass"
        assert find_status(asked, [make_array([nan]), make_array([nan, nan])]) == "fail"


class TestEffects:
    @staticmethod
    def make_reply(results: Array, inputs: Array | None) -> Replied:
        return Replied(Reply((results,), inputs=None if inputs is None else (inputs,)))

    def test_inputs_must_be_unchanged(self) -> None:
        before, after = make_array(TRIANGLE), make_array([1.5, 2.0])
        kept = build_case(expect("inputs-kept"), TRIANGLE, clip_norm=2.5)
        written = build_case(expect("inputs-written"), TRIANGLE, clip_norm=2.5)

        assert find_status(kept, self.make_reply(after, before)) == "pass"
        assert find_status(kept, self.make_reply(after, after)) == "fail"
        assert find_status(kept, self.make_reply(after, None)) == "unsupported"
        assert find_status(written, self.make_reply(after, after)) == "pass"
        assert find_status(written, self.make_reply(after, before)) == "fail"
        assert find_status(written, self.make_reply(after, None)) == "unsupported"

    @pytest.mark.parametrize(
        ("features", "same", "changes", "status"),
        [
            ((), False, True, "fail"),
            ((), True, True, "pass"),
            ((), None, True, "pass"),
            ((), False, False, "pass"),
            (("in_place",), False, True, "pass"),
            (("functional",), True, True, "fail"),
        ],
    )
    def test_gradient_changes_only_if_it_is_the_result(
        self, features: Sequence[str], same: bool | None, changes: bool, status: str
    ) -> None:
        case, results = build_case(expect("values"), TRIANGLE, clip_norm=2.5), make_array([1.5, 2.0])
        inputs = results if changes else make_array(TRIANGLE)
        reply = Reply((results,), inputs=(inputs,), same_object=None if same is None else (same,))
        verdict = judge_answers(case, Replied(reply), subject=make_subject(case.operation, *features))

        assert verdict.status == status
        assert status == "pass" or verdict.breaks == "global-norm.inputs-not-mutated"

    @pytest.mark.parametrize(("is_repeated", "detail"), [(False, "The call changed gradient 1,"), (True, "")])
    def test_changed_gradient_that_is_no_result_is_named(self, is_repeated: bool, detail: str) -> None:
        case = build_case(expect("values"), TRIANGLE, TRIANGLE, rule="norm.scaled-above", clip_norm=2.5)
        gradients = (case.gradients[0], replace(case.gradients[1], same_as=0 if is_repeated else None))
        half = make_array([1.5, 2.0])
        reply = Reply((half, half), inputs=(half, half), same_object=(True, False))

        said = judge_answers(replace(case, gradients=gradients), Replied(reply)).detail
        assert detail in said
        assert bool(said) is not is_repeated

    def test_sum_over_examples_is_no_gradient(self) -> None:
        case = build_case(expect("values"), TRIANGLE, rule="per-example.scaled-above", clip_norm=2.5)
        reply = Reply((make_array([1.5, 2.0]),), inputs=(make_array([1.5, 2.0]),))

        assert judge_answers(case, Replied(reply)).breaks == "per-example.inputs-not-mutated"

    def test_repeated_call_must_give_the_same_bits(self) -> None:
        asked = build_case(expect("repeatable"), TRIANGLE, clip_norm=2.5)

        assert find_status(asked, [make_array([1.5, 2.0])], [make_array([1.5, 2.0])]) == "pass"
        assert find_status(asked, [make_array([1.5, 2.0])], [make_array([1.5, next_up(2.0, "float32")])]) == "fail"
        assert find_status(asked, [make_array([1.5, 2.0])], Raised("RuntimeError", "")) == "fail"

    def test_behaviour_is_that_of_the_first_call_unless_the_second_raised(self) -> None:
        asked = build_case(expect("repeatable"), TRIANGLE, clip_norm=2.5)
        first = [make_array([1.5, 2.0])]

        assert judge_answers(asked, first, Raised("RuntimeError", "")).behaviour == "raises:RuntimeError"
        assert judge_answers(asked, first, [make_array(TRIANGLE)]).behaviour == "other"

    @pytest.mark.parametrize(("second", "status"), [(Died("exit code -11"), "crash"), (TimedOut(3.0), "timeout")])
    def test_second_call_without_an_answer_counts(self, second: Answer, status: str) -> None:
        assert (
            find_status(build_case(expect("repeatable"), TRIANGLE, clip_norm=2.5), [make_array([1.5, 2.0])], second)
            == status
        )

    def test_repetition_in_threads_is_described(self) -> None:
        asked = build_case(expect("repeatable", threads=8), TRIANGLE, clip_norm=2.5)

        second = follow_up(asked, Replied(Reply((make_array([1.5, 2.0]),))))
        found = judge_answers(asked, [make_array([1.5, 2.0])], [make_array([1.5, next_up(2.0, "float32")])])

        assert second is not None
        assert second.options == {"clip_norm": 2.5, "threads": 8}
        assert (found.status, "from 8 threads at once" in found.detail) == ("fail", True)


def test_answer_without_gradients_has_a_word_of_its_own() -> None:
    asked = build_case(expect("values"), TRIANGLE, clip_norm=1.0)
    found = judge_answers(asked, Replied(Reply((), malformed="returned 'no list'")))

    assert (found.status, found.behaviour) == ("fail", "malformed")


def test_threshold_that_must_be_refused_gives_no_norm() -> None:
    asked = build_case(expect("surroundings-kept"), TRIANGLE, clip_norm=-1.0)
    reply = Reply((make_array(TRIANGLE),), norm=make_array([5.0], shape=()), disturbed=())

    assert find_status(asked, Replied(reply)) == "pass"


def test_undefined_behaviour_is_recorded() -> None:
    asked = build_case(expect("recorded"), TRIANGLE, clip_norm=nan)

    assert find_status(asked, [make_array([nan, nan])]) == "unspecified"
    assert find_status(asked, Raised("ValueError", "NaN")) == "unspecified"


class TestOwnFormula:
    claim = Claim("library.*", ("*",), Formula("coefficient", 1e-6), None, "max_norm / (total_norm + 1e-6)", "its page")

    def judge_own(self, asked: Case, results: Array) -> Verdict:
        return judge_answers(asked, [results], claims=(self.claim,))

    @staticmethod
    def clip_own(values: Sequence[float], threshold: float, dtype: str = "float32") -> Array:
        elements = np.array(values, dtype=dtype)
        norm = np.dtype(dtype).type(math.sqrt(math.fsum(x * x for x in values)))
        coefficient = np.dtype(dtype).type(threshold) / (norm + np.dtype(dtype).type(1e-6))
        return Array.of(elements * min(coefficient, np.dtype(dtype).type(1)))

    @pytest.mark.parametrize("expectation", [expect("values"), expect("values", wide=True)])
    @pytest.mark.parametrize("dtype", ["float32", "float64"])
    def test_result_of_the_claimed_formula_is_documented(self, expectation: Expect, dtype: str) -> None:
        for values, threshold in (([3.0, 4.0], 1.0), ([0.375, 0.5], 0.0625), ([3.0, -4.0, 12.0], 2.0)):
            found = self.judge_own(
                build_case(expectation, values, dtype=dtype, clip_norm=threshold),
                self.clip_own(values, threshold, dtype),
            )

            assert (found.status, found.quote) == ("documented", self.claim.phrase)

    def test_neutral_formula_passes_despite_a_claim(self) -> None:
        assert (
            self.judge_own(build_case(expect("values"), TRIANGLE, clip_norm=2.5), make_array([1.5, 2.0])).status
            == "pass"
        )

    def test_formula_that_rounds_alike_passes(self) -> None:
        found = self.judge_own(
            build_case(expect("values"), [300.0, 400.0], dtype="float16", clip_norm=250.0),
            make_array([150.0, 200.0], "float16"),
        )

        assert found.status == "pass"

    def test_scaling_at_the_threshold_is_documented(self) -> None:
        asked = build_case(expect("untouched", indices=(0,)), TRIANGLE, rule="global-norm.at-threshold", clip_norm=5.0)

        assert self.judge_own(asked, self.clip_own(TRIANGLE, 5.0)).status == "documented"

    def test_nearer_formula_is_found_across_a_power_of_two(self) -> None:
        # An ulp below 2**-18 is half as large as an ulp above it. In the smaller ulp, the answer is 2 ulp from the
        # neutral result, and 1.24 ulp from the result of the claimed formula.
        asked = build_case(
            expect("untouched", indices=(0,)),
            [2.0**-18, 2.0**-20],
            dtype="bfloat16",
            clip_norm=float.fromhex("0x1.4ap-18"),
        )

        found = self.judge_own(asked, make_array([2.0**-18 - 2 * 2.0**-26, 2.0**-20], "bfloat16"))
        assert (found.status, found.ulp) == ("documented", 1.0)
        assert found.detail.startswith("1 ulp from the neutral rule, 0.618 ulp from its own formula")
        assert self.judge_own(asked, make_array([2.0**-18, 2.0**-20], "bfloat16")).status == "pass"

    def test_rounding_errors_decide_only_at_the_threshold_of_the_claimed_formula(self) -> None:
        # The coefficients are 0.9989, 1.005, 1.05 and 1.55. With rounding errors in bfloat16, only the first two may be
        # 0.9922, as in the answer.
        values = [2.0**-18, 245 * 2.0**-28]
        scaled = make_array([2.0**-18 - 2 * 2.0**-26, 243 * 2.0**-28], "bfloat16")

        def find_status(threshold: float) -> str:
            asked = build_case(
                expect("untouched", indices=(0,)), values, dtype="bfloat16", clip_norm=threshold * 2.0**-18
            )
            return self.judge_own(asked, scaled).status

        assert [find_status(threshold) for threshold in (1.289, 1.297, 1.35, 2.0)] == [
            "documented",
            "documented",
            "fail",
            "fail",
        ]

    def test_away_from_the_threshold_of_the_claimed_formula_the_nearer_formula_decides(self) -> None:
        # The claimed formula gives a result 5 ulp below the input. The threshold is 6 ulp below the norm plus epsilon.
        asked = build_case(
            expect("untouched", indices=(0,)), [192 * 2.0**-25], dtype="bfloat16", clip_norm=219.68 * 2.0**-25
        )
        found = [
            self.judge_own(asked, make_array([steps * 2.0**-25], "bfloat16")).status for steps in (187, 188, 190, 192)
        ]

        assert found == ["documented", "documented", "fail", "pass"]

    def test_wrong_claim_excuses_nothing(self) -> None:
        found = self.judge_own(build_case(expect("values"), TRIANGLE, clip_norm=2.5), make_array(TRIANGLE))

        assert found.status == "fail"
        assert found.quote is None

    def test_poor_accuracy_is_not_a_formula(self) -> None:
        poor = np.array(self.clip_own(TRIANGLE, 2.5).numpy()) * np.float32(1 - 2.0**-18)
        asked = build_case(expect("values"), TRIANGLE, clip_norm=2.5)

        assert self.judge_own(asked, Array.of(poor)).status == "fail"

    def test_change_of_an_excluded_gradient_is_not_excused_by_a_formula(self) -> None:
        asked = build_case(expect("untouched", indices=(1,)), TRIANGLE, [1.0], excluded=(1,), clip_norm=1.0)

        assert find_status(asked, [self.clip_own(TRIANGLE, 1.0), make_array([0.5])], claims=(self.claim,)) == "fail"


class TestClaimedBehaviour:
    def test_behaviour_that_is_claimed_is_documented(self) -> None:
        claim = Claim(
            "library.clip", ("global-norm.zero-*",), None, "raises:ValueError", "must be positive", "its page"
        )
        asked = build_case(expect("values"), TRIANGLE, rule="global-norm.zero-threshold", clip_norm=0.0)

        assert find_status(asked, Raised("ValueError", ""), claims=(claim,)) == "documented"
        assert find_status(asked, Raised("TypeError", ""), claims=(claim,)) == "fail"
        assert find_status(asked, [make_array([0.0, 0.0])], claims=(claim,)) == "pass"
        assert find_status(asked, Raised("TypeError", ""), claims=(replace(claim, predicts="raises"),)) == "documented"
        elsewhere = replace(asked, rule="global-norm.scaled-above")
        assert find_status(elsewhere, Raised("ValueError", ""), claims=(claim,)) == "fail"
        changed = Raised("ValueError", "", inputs=(make_array([0.0, 0.0]),))
        assert find_status(asked, changed, claims=(claim,)) == "fail"

    def test_passing_answer_is_not_documented(self) -> None:
        claim = Claim("library.clip", ("*",), None, "all-zero", "gives zeros", "its page")
        zeros = [make_array([0.0, 0.0])]
        erased = build_case(expect("values"), TRIANGLE, clip_norm=0.0)
        out_of_range = build_case(expect("values", leaves_range=True), TRIANGLE, clip_norm=2.5)
        above = build_case(expect("values"), TRIANGLE, clip_norm=2.5)

        found = [find_status(asked, zeros, claims=(claim,)) for asked in (erased, out_of_range, above)]
        assert found == ["pass", "quality", "documented"]

    def test_claim_about_errors_covers_the_second_call(self) -> None:
        claim = Claim("library.clip", ("*",), None, "raises:RuntimeError", "can be called once", "its page")
        answers = [make_array([1.5, 2.0])], Raised("RuntimeError", "")

        found = judge_answers(build_case(expect("repeatable"), TRIANGLE, clip_norm=2.5), *answers, claims=(claim,))
        assert found.status == "documented"


def test_disagreement_of_the_oracles_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    honest = pytest.importorskip(
        "gradclip_conformance.oracle.balls", reason="the second oracle needs python-flint", exc_type=ImportError
    )

    class Liar:
        describe_disagreement = staticmethod(honest.describe_disagreement)

        @staticmethod
        def clip_by_global_norm(*arguments: Any) -> Clipped:
            told: Clipped = honest.clip_by_global_norm(*arguments)
            return replace(told, side=-told.side)

    monkeypatch.setattr(oracles, "SECOND", Liar)
    found = judge_answers(build_case(expect("values"), [7.0, 24.0], clip_norm=2.75), [round_array([0.77, 2.64])])

    assert found.status == "error"
    assert "oracles disagree" in found.detail
