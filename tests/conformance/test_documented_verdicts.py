"""Check which answers a documentation explains: by a formula, by a claimed behaviour, or by the domain of an option."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hand_made import CASES, build_case, find_status, judge_answers, make_entry_point

from gradclip_adapters.contract import Array
from gradclip_conformance.cases.build import VALUES
from gradclip_conformance.cases.model import Expect, expect
from gradclip_conformance.judge.model import Claim, Domain, Raised
from gradclip_conformance.oracle.formula import Formula

TRIANGLE = [3.0, 4.0]

OWN_FORMULA = Claim(
    "library.*", ("*",), Formula("coefficient", 1e-6), None, "max_norm / (total_norm + 1e-6)", "its page"
)
POSITIVE = Claim(
    "library.clip", ("*",), None, None, "clip_norm: a number > 0", "its page", domain=Domain("clip_norm", 0.0)
)
UNTOUCHED = expect("untouched", indices=(0,))


def clip_own(values: Sequence[float], threshold: float, dtype: str = "float32") -> Array:
    """Clip by the claimed formula."""
    elements, kind = np.array(values, dtype=dtype), np.dtype(dtype).type
    norm = kind(math.sqrt(math.fsum(x * x for x in values)))
    return Array.of(elements * min(kind(threshold) / (norm + kind(1e-6)), kind(1)))


class TestOwnFormula:
    @pytest.mark.parametrize("expectation", [VALUES, expect("values", wide=True)])
    @pytest.mark.parametrize("dtype", ["float32", "float64"])
    def test_result_of_the_claimed_formula_is_documented(self, expectation: Expect, dtype: str) -> None:
        for values, threshold in (([3.0, 4.0], 1.0), ([0.375, 0.5], 0.0625), ([3.0, -4.0, 12.0], 2.0)):
            asked = build_case(expectation, values, dtype=dtype, clip_norm=threshold)
            found = judge_answers(asked, [clip_own(values, threshold, dtype)], claims=(OWN_FORMULA,))

            assert (found.status, found.quote) == ("documented", OWN_FORMULA.phrase)

    @pytest.mark.parametrize(
        ("threshold", "dtype", "result", "status"),
        [
            (2.5, "float32", [1.5, 2.0], "pass"),
            # A wrong claim excuses nothing.
            (2.5, "float32", [3.0, 4.0], "fail"),
            # Poor accuracy is not a formula.
            (2.5, "float32", clip_own(TRIANGLE, 2.5).numpy() * np.float32(1 - 2.0**-18), "fail"),
            # The two formulas give results that round to the same numbers.
            (2.5, "float16", [1.5, 2.0], "pass"),
        ],
        ids=["neutral", "unclipped", "poor", "alike"],
    )
    def test_other_results_are_not_documented(
        self, threshold: float, dtype: str, result: list[float] | np.ndarray[Any, Any], status: str
    ) -> None:
        asked = build_case(VALUES, TRIANGLE, dtype=dtype, clip_norm=threshold)
        found = judge_answers(asked, [result], claims=(OWN_FORMULA,))

        assert (found.status, found.quote) == (status, None)

    def test_scaling_at_the_threshold_is_documented(self) -> None:
        asked = build_case(UNTOUCHED, TRIANGLE, rule="global-norm.at-threshold", clip_norm=5.0)

        assert find_status(asked, [clip_own(TRIANGLE, 5.0)], claims=(OWN_FORMULA,)) == "documented"

    def test_nearer_formula_is_found_across_a_power_of_two(self) -> None:
        # An ulp below 2**-18 is half as large as an ulp above it. In the smaller ulp, the answer is 2 ulp from the
        # neutral result, and 1.24 ulp from the result of the claimed formula.
        threshold = float.fromhex("0x1.4ap-18")
        asked = build_case(UNTOUCHED, [2.0**-18, 2.0**-20], dtype="bfloat16", clip_norm=threshold)

        found = judge_answers(asked, [[2.0**-18 - 2 * 2.0**-26, 2.0**-20]], claims=(OWN_FORMULA,))
        assert (found.status, found.ulp) == ("documented", 1.0)
        assert found.detail.startswith("1 ulp from the neutral rule, 0.618 ulp from its own formula")
        assert find_status(asked, [[2.0**-18, 2.0**-20]], claims=(OWN_FORMULA,)) == "pass"

    # The coefficients are 0.9989, 1.005, 1.05 and 1.55. With rounding errors in bfloat16, only the first two may be
    # 0.9922, as in the answer.
    @pytest.mark.parametrize(
        ("threshold", "status"), [(1.289, "documented"), (1.297, "documented"), (1.35, "fail"), (2.0, "fail")]
    )
    def test_rounding_errors_decide_only_at_the_threshold_of_the_claimed_formula(
        self, threshold: float, status: str
    ) -> None:
        values, scaled = [2.0**-18, 245 * 2.0**-28], [2.0**-18 - 2 * 2.0**-26, 243 * 2.0**-28]
        asked = build_case(UNTOUCHED, values, dtype="bfloat16", clip_norm=threshold * 2.0**-18)

        assert find_status(asked, [scaled], claims=(OWN_FORMULA,)) == status

    # The claimed formula gives a result 5 ulp below the input. The threshold is 6 ulp below the norm plus epsilon.
    @pytest.mark.parametrize(
        ("steps", "status"), [(187, "documented"), (188, "documented"), (190, "fail"), (192, "pass")]
    )
    def test_away_from_the_threshold_of_the_claimed_formula_the_nearer_formula_decides(
        self, steps: int, status: str
    ) -> None:
        asked = build_case(UNTOUCHED, [192 * 2.0**-25], dtype="bfloat16", clip_norm=219.68 * 2.0**-25)

        assert find_status(asked, [[steps * 2.0**-25]], claims=(OWN_FORMULA,)) == status

    def test_change_of_an_excluded_gradient_is_not_excused_by_a_formula(self) -> None:
        asked = build_case(expect("untouched", indices=(1,)), TRIANGLE, [1.0], excluded=(1,), clip_norm=1.0)

        assert find_status(asked, [clip_own(TRIANGLE, 1.0), [0.5]], claims=(OWN_FORMULA,)) == "fail"

    @pytest.mark.parametrize("phrase", [None, "norm + 1e-6"])
    def test_formula_of_an_adapter_is_documented_and_its_phrase_quoted(self, phrase: str | None) -> None:
        formula = {"kind": "coefficient", "eps": 1e-6, **({} if phrase is None else {"phrase": phrase})}
        asked = build_case(VALUES, TRIANGLE, clip_norm=1.0)

        found = judge_answers(asked, [clip_own(TRIANGLE, 1.0)], entry_point=make_entry_point(formula=formula))

        assert (found.status, found.quote) == ("documented", phrase)


class TestClaimedBehaviour:
    def test_behaviour_that_is_claimed_is_documented(self) -> None:
        claim = Claim(
            "library.clip", ("global-norm.zero-*",), None, "raises:ValueError", "must be positive", "its page"
        )
        asked = build_case(VALUES, TRIANGLE, rule="global-norm.zero-threshold", clip_norm=0.0)

        assert find_status(asked, Raised("ValueError", ""), claims=(claim,)) == "documented"
        assert find_status(asked, Raised("TypeError", ""), claims=(claim,)) == "fail"
        assert find_status(asked, [[0.0, 0.0]], claims=(claim,)) == "pass"
        assert find_status(asked, Raised("TypeError", ""), claims=(replace(claim, predicts="raises"),)) == "documented"
        elsewhere = replace(asked, rule="global-norm.scaled-above")
        assert find_status(elsewhere, Raised("ValueError", ""), claims=(claim,)) == "fail"

    def test_passing_answer_is_not_documented(self) -> None:
        claim = Claim("library.clip", ("*",), None, "all-zero", "gives zeros", "its page")
        erased = build_case(VALUES, TRIANGLE, clip_norm=0.0)
        out_of_range = build_case(expect("values", leaves_range=True), TRIANGLE, clip_norm=2.5)
        above = build_case(VALUES, TRIANGLE, clip_norm=2.5)

        found = [find_status(asked, [[0.0, 0.0]], claims=(claim,)) for asked in (erased, out_of_range, above)]
        assert found == ["pass", "quality", "documented"]

    def test_claim_about_errors_covers_the_second_call(self) -> None:
        claim = Claim("library.clip", ("*",), None, "raises:RuntimeError", "can be called once", "its page")
        asked = build_case(expect("repeatable"), TRIANGLE, clip_norm=2.5)

        assert find_status(asked, [[1.5, 2.0]], Raised("RuntimeError", ""), claims=(claim,)) == "documented"


class TestDomain:
    def test_outside_a_documented_domain_any_answer_is_documented(self) -> None:
        case = CASES["global-norm.zero-threshold/two-tensors/float32"]
        same = [gradient.array.numpy() for gradient in case.gradients if gradient.array]

        for answer in (Raised("ValueError", ""), same, [one * np.float32(math.nan) for one in same]):
            assert find_status(case, answer) == "fail"
            found = judge_answers(case, answer, claims=(POSITIVE,))
            assert (found.status, found.quote) == ("documented", "clip_norm: a number > 0")
        assert find_status(case, [one * np.float32(0) for one in same], claims=(POSITIVE,)) == "pass"

    @pytest.mark.parametrize(
        "rule", ["zero-threshold/two-tensors", "inputs-not-mutated/threshold-zero", "in-place-written/threshold-zero"]
    )
    def test_same_refusal_has_the_same_verdict_in_every_rule(self, rule: str) -> None:
        case = CASES[f"global-norm.{rule}/float32"]
        kept = tuple(gradient.array for gradient in case.gradients)

        assert find_status(case, Raised("ValueError", "", kept), claims=(POSITIVE,)) == "documented"
        # An error that is raised after a gradient was changed does not count as a refusal.
        assert find_status(case, Raised("ValueError", "", (None, *kept[1:])), claims=(POSITIVE,)) == "fail"

    def test_failure_inside_a_documented_domain_is_not_excused(self) -> None:
        above = "global-norm.scaled-above/three-four-five/float32"
        negative = "global-norm.negative-threshold-refused/minus-one/float32"

        assert find_status(above, Raised("ValueError", ""), claims=(POSITIVE,)) == "fail"
        assert find_status(negative, [[-3.0], [4.0]], claims=(POSITIVE,)) == "documented"

    def test_documented_domain_may_depend_on_another_option(self) -> None:
        alone = replace(POSITIVE, domain=Domain("max", 0.0, without="min"))
        case = CASES["value.zero-threshold/two-tensors/float32"]
        both = replace(case, options={"min": 0.0, "max": 0.0})

        assert find_status(case, Raised("AssertionError", ""), claims=(alone,)) == "documented"
        assert find_status(both, Raised("AssertionError", ""), claims=(alone,)) == "fail"
