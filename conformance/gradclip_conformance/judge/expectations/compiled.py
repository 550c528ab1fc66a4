"""Expect a call to give the same results whether the framework compiles it or not.

A compiler may round differently, but must not change anything else. Each of the two answers lies within the error bound
(see `bounds`) of the exact result, so the two are at most two bounds apart. They must be equal if nothing is rounded:
in a clip by value, for zeros, for a gradient whose norm is not finite, and for excluded gradients.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import ClassVar

import numpy as np

from gradclip_adapters.contract import Array, Reply
from gradclip_reports.statuses import Status

from ...cases.literals import NoScript
from ...cases.model import Case
from ...cases.readable import show_array, show_gradients
from ...oracle.arrays import decode
from ...oracle.distances import GRADES, measure_distances
from ...oracle.formats import FORMATS, convert_to_dtype, read_float64_values
from ...oracle.model import ExpectedArray
from ...oracle.predict import predict
from ...oracle.question import find_narrowest
from ..arrays import has_same_bits, measure_norm_distance, read_norm
from ..expectation import Expectation, Part, find_broken_form
from ..fingerprint import describe_distance_between_calls, describe_what_happened, show_answer
from ..model import Answer, Context, Raised, Script, Verdict, join_lines
from ..script_lines import format_tolerance

WHAT_IS_EXACT = "NaN, infinities, the results of zeros, and the bits of excluded gradients must be the same."


@dataclass(frozen=True)
class CompiledAgrees(Expectation):
    """The compiled call gives the same results as the call that is not compiled."""

    name: ClassVar[str] = "compiled-agrees"
    compiles: ClassVar[bool] = True

    def follow_up(self, case: Case, first: Answer | None) -> Case | None:
        """Return the same call, compiled."""
        del first
        return replace(case, options={**case.options, "compiled": True})

    def judge_answers(self, context: Context, answers: Sequence[Answer]) -> Verdict | None:
        """Judge two answers if one of them is an error. Then both must be errors."""
        if not any(isinstance(each, Raised) for each in answers):
            return None
        if all(isinstance(each, Raised) for each in answers):
            return Verdict(Status.PASS, observed=show_answer(answers[0]))
        case, (alone, compiled) = context.case, answers
        detail = (
            f"The uncompiled call {describe_what_happened(case, alone)}. "
            f"The compiled call {describe_what_happened(case, compiled)}."
        )
        return Verdict(Status.FAIL, detail, expected=show_answer(alone), observed=show_answer(compiled))

    def judge_replies(self, context: Context, replies: Sequence[Reply]) -> Verdict:
        """Compare each gradient, and the norms."""
        case, (alone, compiled) = context.case, replies
        shown = [show_gradients(reply.gradients) for reply in (alone, compiled)]
        if (broken := find_broken_form(case, compiled)) is not None:
            detail = f"Compiled: {broken.detail}"
            return Verdict(Status.FAIL, detail, expected=shown[0], observed=broken.observed)
        pairs = enumerate(zip(alone.gradients, compiled.gradients, strict=True))
        found = [_compare_gradients(context, i, *pair) for i, pair in pairs]
        found.append(_compare_norms(case, alone.norm, compiled.norm))
        worst = max(found, key=lambda one: (GRADES.index(one.status), one.ulp or 0.0))
        if worst.status == Status.PASS:
            return worst
        return Verdict(worst.status, worst.detail, worst.ulp, worst.expected or shown[0], worst.observed or shown[1])

    def describe(self, case: Case) -> Sequence[Part]:
        """Return which results must be equal, and how far the others may differ."""
        says = "the same call inside the framework's compiler gives the same results, or both raise an error."
        return (says, describe_distance_between_calls(case), WHAT_IS_EXACT)

    def write_script(self, script: Script) -> str:
        """Return the lines that clip both ways and compare."""
        case, alone, compiled = script.case, script.call, script.compiled
        if compiled is None:
            msg = f"The suite does not know how to compile {script.entry_point.name}."
            raise NoScript(msg)
        if "functional" in script.entry_point.features and compiled.gradients == alone.gradients:
            compiled = replace(compiled, gradients="")
        if script.refused_rightly:
            return join_lines(alone.expect_error(), compiled.expect_error())
        tolerance = 2 * max(
            errors.clip_bound * 2.0 ** (1 - FORMATS[array.dtype].precision)
            for errors, gradient in zip(predict(case).errors, case.gradients, strict=True)
            if (array := gradient.array) is not None
        )
        compare = f"np.testing.assert_allclose(result, value, rtol={format_tolerance(tolerance)})"
        if not tolerance:
            compare = "np.testing.assert_array_equal(result, value)"
        check = f"for result, value in zip(results, by_itself):\n    {compare}"
        if any(gradient.array is None for gradient in case.gradients):
            exist = 'assert (result is None) == (value is None), f"expected: {value}; observed: {result}"'
            check = check.replace(compare, f"{exist}\n    if value is not None:\n        {compare}")
        second = replace(script, call=compiled).clip_lines()
        return join_lines(alone.write_lines(), "by_itself = results", second, check)


def _compare_gradients(context: Context, index: int, alone: Array | None, compiled: Array | None) -> Verdict:
    case = context.case
    given = case.gradients[index].array
    if given is None or alone is None or compiled is None:
        return Verdict(Status.PASS)
    if alone.dtype != compiled.dtype:
        return Verdict(Status.FAIL, f"Gradient {index} is {alone.dtype} uncompiled, and {compiled.dtype} compiled.")
    if index not in case.included:
        if has_same_bits(alone, compiled, context.through_optimizer):
            return Verdict(Status.PASS)
        return Verdict(Status.FAIL, f"Gradient {index} is excluded, and the compiled call returns it changed.")
    one, other = (convert_to_dtype(array, given.dtype) for array in (alone, compiled))
    every = measure_distances(other, ExpectedArray(decode(one, given.dtype)), given.dtype)
    every[(read_float64_values(given) == 0) & (every > 0)] = math.inf
    if not len(every):
        return Verdict(Status.PASS)
    place = int(np.argmax(every))
    errors = predict(case).errors[index]
    return _grade(f"Element {place} of gradient {index}", float(every[place]), errors.clip_budget, errors.clip_bound)


def _compare_norms(case: Case, alone: Array | None, compiled: Array | None) -> Verdict:
    if alone is None and compiled is None:
        return Verdict(Status.PASS)
    if alone is None or compiled is None:
        which = "uncompiled" if compiled is None else "compiled"
        return Verdict(Status.FAIL, f"Only the {which} call returned a norm.")
    expected, observed = ({"norm": show_array(array)} for array in (alone, compiled))
    try:
        value, other = read_norm(alone), read_norm(compiled)
    except ValueError as error:
        return Verdict(Status.FAIL, f"{str(error).capitalize()}.", expected=expected, observed=observed)
    if value == other or (math.isnan(value) and math.isnan(other)):
        return Verdict(Status.PASS)
    apart = measure_norm_distance(compiled, Fraction(value), find_narrowest(case)) if math.isfinite(value) else math.inf
    errors = predict(case).widest
    found = _grade("The norm that is returned", apart, errors.norm_budget, errors.norm_bound)
    return Verdict(found.status, found.detail, found.ulp, expected, observed)


def _grade(what: str, apart: float, budget: float, bound: float) -> Verdict:
    if apart <= 2 * budget:
        return Verdict(Status.PASS, ulp=apart)
    detail = (
        f"{what} is {apart:.3g} ulp from its value in the uncompiled call. The budget is {2 * budget:.3g}; twice the "
        f"error bound is {2 * bound:.3g}."
    )
    return Verdict(Status.QUALITY if apart <= 2 * bound else Status.FAIL, detail, apart)
