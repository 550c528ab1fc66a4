"""Judge one cell: compare the answer with the neutral rule, and then with the framework's documentation.

1. If the process died, ran out of time, or the adapter made a mistake, the cell gets a status of its own.
2. The expectation of the case decides between `pass`, `quality` and `fail` (see `expectation`).
3. A claim about the framework's documentation turns an answer that it predicts into `documented`. A claim gives a
   formula (see `formulas`), a behaviour, such as NaN everywhere, or the domain of an option: outside it, the
   documentation promises nothing. A formula that no phrase documents gives `declared`.

If the two oracles disagree, the status is `error`, whatever the answer was.

The judge looks only at bits and exact numbers; it does not know the framework's name.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from gradclip_reports.statuses import Status

from ..cases.model import Case
from ..oracle.formula import Formula
from ..oracle.predict import OraclesDisagreeError, predict
from .expectation import Expectation, resolve
from .expectations import load_expectations
from .fingerprint import behaviour_of, exact_behaviour, expected_arrays, observed_answer, what_happened
from .form import broken_form, first_changed, rows_only
from .formulas import documented_by_formula
from .model import Answer, Context, Died, Mistaken, NotSupported, Raised, Replied, TimedOut, Verdict, claims_for

__all__ = ["EXPECTATIONS", "expectation_of", "explained", "follow_up", "judge"]

#: The expectations of the suite. Loading their modules registers them, so that cases can name them.
EXPECTATIONS: tuple[type[Expectation], ...] = load_expectations()


def expectation_of(case: Case) -> Expectation:
    """Return the expectation that a case names.

    Raises
    ------
    ValueError
        When no expectation has this name, or it has no such parameter.
    """
    return resolve(case.expectation)


def follow_up(case: Case, first: Answer) -> Case | None:
    """Return the second call, to be made after the first answer; None if there is none."""
    return expectation_of(case).follow_up(case, first)


def judge(context: Context, answers: Sequence[Answer]) -> Verdict:
    """Return the verdict on the answers to one case; known failures are looked up later."""
    for answer in answers:
        if (verdict := _judge_no_answer(answer)) is not None:
            return verdict
    expectation = expectation_of(context.case)
    # The first answer gives the word for all of them, unless a later call raised.
    telling = answers[-1] if isinstance(answers[-1], Raised) else answers[0]
    behaviour = behaviour_of(context.case, telling, expectation.about)
    try:
        found = _judge_by_rule(context, expectation, answers)
        found = _judge_by_claims(context, expectation, answers, found, behaviour)
    except OraclesDisagreeError as error:
        return Verdict(Status.ERROR, str(error), behaviour=behaviour)
    if found.status == Status.FAIL:
        behaviour = _word(context, expectation, answers, found)
    return replace(found, behaviour=behaviour)


def explained(context: Context, answers: Sequence[Answer], formula: Formula, found: Verdict) -> bool:
    """Return whether a formula explains a failure, within the error of the arithmetic."""
    expectation = expectation_of(context.case)
    return documented_by_formula(context, expectation, answers, formula, found) is not None


def _judge_no_answer(answer: Answer) -> Verdict | None:
    match answer:
        case Died(text):
            return Verdict(Status.CRASH, text, behaviour="crash")
        case TimedOut():
            return Verdict(Status.TIMEOUT, answer.text, behaviour="timeout")
        case Mistaken(text):
            return Verdict(Status.ERROR, f"The adapter itself failed: {text}")
        case NotSupported(text, kind):
            return Verdict(Status.UNSUPPORTED, f"The adapter says: {text}", lacks=kind)
    return None


def _judge_by_rule(context: Context, expectation: Expectation, answers: Sequence[Answer]) -> Verdict:
    """Compare the answers with the expectation."""
    case = context.case
    for each in answers:
        if isinstance(each, Replied) and each.reply.malformed is not None and not expectation.takes_malformed:
            detail = f"A list of clipped gradients or an error was expected, and it {what_happened(case, each)}."
            return Verdict(Status.FAIL, detail, observed=observed_answer(each))
    if (found := expectation.judge_answers(context, answers)) is not None:
        return found
    for each in answers:
        if not isinstance(each, Replied):
            expected = {"gradients": expected_arrays(case, predict(case).gradients)}
            detail = f"A result was expected, and it {what_happened(case, each)}."
            return Verdict(Status.FAIL, detail, expected=expected, observed=observed_answer(each))
    replies = [rows_only(case, each.reply) for each in answers if isinstance(each, Replied)]
    if (broken := broken_form(case, replies[0])) is not None:
        return broken
    return expectation.judge_replies(context, replies)


def _judge_by_claims(
    context: Context, expectation: Expectation, answers: Sequence[Answer], found: Verdict, behaviour: str
) -> Verdict:
    """Compare the verdict with the claims about the documentation."""
    if found.status in (Status.UNSUPPORTED, Status.UNSPECIFIED, Status.ERROR):
        return found
    for claim in claims_for(context.claims, context.case.id, context.subject):
        quoted = {"quote": claim.phrase or None, "url": claim.where}
        if claim.formula is not None:
            own = documented_by_formula(context, expectation, answers, claim.formula, found)
            if own is not None:
                return own.with_status(Status.DOCUMENTED if claim.phrase else Status.DECLARED, **quoted)
        elif claim.domain is not None:
            if claim.domain.leaves_out(context.case.options) and _broken_outside(context, answers, found):
                detail = f"{found.detail} Its documentation promises nothing for this {claim.domain.option}."
                return found.with_status(Status.DOCUMENTED, detail=detail, **quoted)
        elif found.status == Status.FAIL and claim.predicts in (behaviour, behaviour.partition(":")[0]):
            detail = f"{found.detail} Its documentation says so."
            return found.with_status(Status.DOCUMENTED, detail=detail, **quoted)
    return found


def _broken_outside(context: Context, answers: Sequence[Answer], found: Verdict) -> bool:
    """Return whether a rule is broken in a way that a bounded domain excuses: no refusal that changes the inputs."""
    refused = [answer for answer in answers if isinstance(answer, Raised)]
    return found.status == Status.FAIL and all(first_changed(context.case, each.inputs) is None for each in refused)


def _word(context: Context, expectation: Expectation, answers: Sequence[Answer], found: Verdict) -> str:
    following = expectation.follow_up(context.case, answers[0])
    cases = [context.case] if following is None else [context.case, following]
    word = exact_behaviour(cases, answers, expectation.about, through_optimizer=context.through_optimizer)
    if not word.startswith("other:") or not found.ulp or found.ulp == math.inf:
        return word
    # If an answer is wrong only in a later digit, its first digits do not show that.
    return f"{word} off by 2^{math.floor(math.log2(found.ulp))} ulp"
