"""Check that right answers pass, that wrong answers fail, and that each verdict has the right status."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hand_made import CASES, find_status, judge_answers, make_subject

from gradclip_conformance.cases.model import Case
from gradclip_conformance.judge.model import Claim, Domain, Raised

nan, inf = math.nan, math.inf


def list_arrays(case: str | Case) -> list[np.ndarray[Any, Any]]:
    """Return the gradients of a case that exist."""
    asked = CASES[case] if isinstance(case, str) else case
    return [gradient.array.numpy() for gradient in asked.gradients if gradient.array is not None]


# The status `quality`: an inaccurate answer does not fail if the arithmetic of its dtype explains the error.


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_coefficient_that_underflows_excuses_only_its_own_error(dtype: str) -> None:
    case = CASES[f"global-norm.coefficient-underflow/hardly-apart/{dtype}"]
    (x,) = list_arrays(case)
    kind = np.dtype(dtype).type
    # The numbers are 3 and 4 times a power of two.
    poor = x * (kind(case.options["clip_norm"]) / kind(x[1] / 4 * 5))

    assert find_status(case, [poor]) == "quality"
    # These answers have another magnitude, another sign and another direction.
    assert find_status(case, [poor * kind(2)]) == "fail"
    assert find_status(case, [-poor]) == "fail"
    assert find_status(case, [poor * np.array([1, 0.75], dtype)]) == "fail"


def test_coefficient_that_underflows_is_excused_only_by_rules_of_quality() -> None:
    case = CASES["global-norm.coefficient-underflow/hardly-apart/float32"]
    elsewhere = replace(case, rule="global-norm.scaled-above", expectation=replace(case.expectation, parameters=()))
    (x,) = list_arrays(case)
    poor = x * (np.float32(case.options["clip_norm"]) / np.float32(x[1] / 4 * 5))

    assert find_status(elsewhere, [poor]) == "fail"


# NaN beside infinity.

BOTH = "global-norm.nan-not-silent/beside-infinity/float32"


@pytest.mark.parametrize(
    "results",
    [
        [[nan, nan], [nan, nan]],
        # hypot(inf, NaN) is infinite: the finite elements become zeros.
        [[0.0, nan], [nan, -0.0]],
    ],
)
def test_norm_of_nan_and_infinity_may_be_either(results: list[list[float]]) -> None:
    found = judge_answers(BOTH, [np.array(one, "float32") for one in results])

    assert found.status == "pass"


@pytest.mark.parametrize(
    "results", [[[3.0, inf], [nan, -2.0]], [[0.0, nan], [nan, nan]], [[nan, nan], [nan, -0.0]], [[0.0, 0.0]] * 2]
)
def test_elements_follow_one_of_the_two_norms(results: list[list[float]]) -> None:
    found = judge_answers(BOTH, [np.array(one, "float32") for one in results])

    assert found.status == "fail"


@pytest.mark.parametrize(("norm", "status"), [(nan, "pass"), (inf, "pass"), (-inf, "fail"), (3.0, "fail")])
def test_returned_norm_of_nan_and_infinity_may_be_either(norm: float, status: str) -> None:
    given = "global-norm.returned-norm-nonfinite/nan-and-infinity/float32"
    zeros = [np.array([0.0, nan], "float32"), np.array([nan], "float32")]

    assert find_status(given, zeros, norm=norm) == status


@pytest.mark.parametrize(("given", "norm"), [("nan", inf), ("infinity", nan)])
def test_norm_of_nan_alone_or_infinity_alone_is_fixed(given: str, norm: float) -> None:
    case = CASES[f"global-norm.returned-norm-nonfinite/{given}/float32"]
    nans = [np.full(one.shape, nan, "float32") for one in list_arrays(case)]

    assert find_status(case, nans, norm=norm) == "fail"


# Claims of a documentation, and formulas that an adapter declares.

POSITIVE = Claim(
    "library.clip", ("*",), None, None, "clip_norm: a number > 0", "its page", domain=Domain("clip_norm", 0.0)
)


def test_outside_a_documented_domain_any_answer_is_documented() -> None:
    case = "global-norm.zero-threshold/two-tensors/float32"
    same = list_arrays(case)

    for answer in (Raised("ValueError", ""), same, [one * np.float32(nan) for one in same]):
        assert find_status(case, answer) == "fail"
        found = judge_answers(case, answer, claims=(POSITIVE,))
        assert (found.status, found.quote) == ("documented", "clip_norm: a number > 0")
    zeros = [one * np.float32(0) for one in same]
    assert find_status(case, zeros, claims=(POSITIVE,)) == "pass"


def test_same_refusal_has_the_same_verdict_in_every_rule() -> None:
    for rule in ("zero-threshold/two-tensors", "inputs-not-mutated/threshold-zero", "in-place-written/threshold-zero"):
        case = CASES[f"global-norm.{rule}/float32"]
        kept = tuple(gradient.array for gradient in case.gradients)
        changed = (None, *kept[1:])

        assert find_status(case, Raised("ValueError", "", kept), claims=(POSITIVE,)) == "documented"
        # An error that is raised after a gradient was changed does not count as a refusal.
        assert find_status(case, Raised("ValueError", "", changed), claims=(POSITIVE,)) == "fail"


def test_failure_inside_a_documented_domain_is_not_excused() -> None:
    above, negative = "global-norm.scaled-above/three-four-five/float32", "global-norm.negative-threshold-refused"

    assert find_status(above, Raised("ValueError", ""), claims=(POSITIVE,)) == "fail"
    flipped = [np.array([-3.0], "float32"), np.array([4.0], "float32")]
    assert find_status(f"{negative}/minus-one/float32", flipped, claims=(POSITIVE,)) == "documented"


def test_documented_domain_may_depend_on_another_option() -> None:
    alone = replace(POSITIVE, domain=Domain("max", 0.0, without="min"))
    case = CASES["value.zero-threshold/two-tensors/float32"]
    both = replace(case, options={"min": 0.0, "max": 0.0})

    assert find_status(case, Raised("AssertionError", ""), claims=(alone,)) == "documented"
    assert find_status(both, Raised("AssertionError", ""), claims=(alone,)) == "fail"


@pytest.mark.parametrize("phrase", [None, "norm + 1e-6"])
def test_formula_of_an_adapter_is_documented_and_its_phrase_quoted(phrase: str | None) -> None:
    formula = {"kind": "coefficient", "eps": 1e-6, **({} if phrase is None else {"phrase": phrase})}
    own = make_subject("clip_by_global_norm", formula=formula)
    x = np.array([3.0, 4.0], "float32")
    result = (x * np.float64(1 / (5 + 1e-6))).astype("float32")

    found = judge_answers("global-norm.scaled-above/three-four-five/float32", [result], subject=own)

    assert (found.status, found.quote) == ("documented", phrase)
