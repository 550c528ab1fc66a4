"""Find out whether a documentation explains answers, by a formula or in words, better than the neutral rule does."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from gradclip_adapters.contract import EntryPoint
from gradclip_adapters.operations import OPERATIONS
from gradclip_reports.statuses import Status

from ..oracle.formula import Formula
from .calls import Calls
from .fingerprint import show_answer, show_expected_arrays
from .model import Claim, Verdict


def judge_by_claims(calls: Calls, found: Verdict) -> Verdict:
    """Return the verdict of a rule, or `documented` if a claim about the documentation explains the answers better."""
    # No documentation excuses an error that changes the inputs.
    if found.status in (Status.UNSUPPORTED, Status.UNSPECIFIED, Status.ERROR) or calls.changed_before_error:
        return found
    context = calls.context
    for claim in select_claims(context.claims, context.case.id, context.subject):
        if (explained := _explain(calls, claim, found)) is not None:
            return replace(
                explained, status=Status.DOCUMENTED, breaks=None, quote=claim.phrase or None, url=claim.where
            )
    return found


def select_claims(claims: Sequence[Claim], case: str, entry_point: EntryPoint) -> list[Claim]:
    """Return the claims about a cell. A formula that the entry point itself declares comes last."""
    found = [claim for claim in claims if claim.speaks_of(case, entry_point.name)]
    if entry_point.formula is not None:
        phrase = str(entry_point.formula.get("phrase", ""))
        where = str(entry_point.formula.get("where", "the adapter"))
        found.append(Claim(entry_point.name, ("*",), Formula.of(entry_point.formula), None, phrase, where))
    return found


def _explain(calls: Calls, claim: Claim, found: Verdict) -> Verdict | None:
    """Return the verdict with a detail that refers to the documentation, or None if it explains nothing."""
    if claim.formula is not None:
        return _judge_by_formula(calls, claim.formula, found)
    if found.status != Status.FAIL:
        return None
    if claim.domain is not None:
        if not claim.domain.leaves_out(calls.context.case.options):
            return None
        promise = f"The framework's documentation promises nothing for this {claim.domain.option}."
        return replace(found, detail=f"{found.detail} {promise}")
    if claim.predicts not in (found.behaviour, found.behaviour.partition(":")[0]):
        return None
    return replace(found, detail=f"{found.detail} The framework's documentation says so.")


def _judge_by_formula(calls: Calls, formula: Formula, found: Verdict) -> Verdict | None:
    """Return the verdict under a framework's own formula. Return None unless it explains more than the neutral rule.

    The results of the two formulas must round to different numbers, and the answer must be nearer to the result of the
    framework's formula. The answer must also lie within the budget of that result; or, if the neutral rule gives
    `fail`, within the error bound. Both distances are in ulp of the neutral result, because the other result may lie in
    another binade.

    Near the threshold of the framework's formula, rounding errors decide whether it scales a gradient. A scaled
    gradient is then explained, too, although the threshold of the neutral rule leaves the gradient unchanged.

    A relation between calls is explained if each of the answers is explained.
    """
    context, expectation = calls.context, calls.expectation
    if not OPERATIONS[context.case.operation].is_by_norm or (expectation.relates and found.status == Status.PASS):
        return None
    if not calls.are_answered:
        return None
    compared = [
        expectation.compare_formulas(replace(context, case=case), reply, formula)
        for case, reply in zip(calls.cases, calls.replies, strict=True)
    ]
    allowed = (Status.PASS, Status.QUALITY) if found.status == Status.FAIL else (Status.PASS,)
    if any(one is None or one.grade not in allowed for one in compared):
        return None
    farthest = max((one for one in compared if one is not None), key=lambda one: one.from_neutral)
    if not (farthest.from_own < farthest.from_neutral or farthest.at_own_threshold):
        return None
    detail = (
        f"{farthest.from_neutral:.3g} ulp from the neutral rule, {farthest.from_own:.3g} ulp from its own formula "
        f"({formula}){', at its threshold' if farthest.at_own_threshold else ''}."
    )
    expected = found.expected
    if found.status == Status.PASS:
        expected = {"gradients": show_expected_arrays(context.case)}
    return replace(
        found,
        detail=detail,
        ulp=farthest.from_neutral,
        expected=expected,
        observed=show_answer(calls.answers[0]),
        formula=formula,
    )
