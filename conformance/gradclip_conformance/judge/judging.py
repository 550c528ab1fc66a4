"""Judge one cell: compare the answer with the neutral rule, and then with the framework's documentation.

1. If the process died or ran out of time, or the adapter made a mistake, the cell gets a special status.
2. The expectation of the case decides between `pass`, `quality` and `fail` (see `expectation`).
3. A claim about the framework's documentation turns an answer that it predicts into `documented`. A claim gives a
   formula (see `formulas`), a behaviour, such as NaN everywhere, or the domain of an option: outside it, the
   documentation promises nothing. A formula that only the adapter declares counts, too, without a quotation.

4. An answer that keeps the rule of its case may break another rule that every call must keep (see `everywhere`). Then
   the cell fails and names that rule.

If the two oracles disagree, the status is `error`, whatever the answer was.

The judge looks only at bits and exact numbers; it does not know the framework's name.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from gradclip_adapters.matching import MISMATCH
from gradclip_reports.statuses import Status

from ..cases.model import Case
from ..oracle.predict import OraclesDisagreeError, predict
from .everywhere import list_also_expected
from .expectation import Expectation, find_broken_form, find_first_changed, resolve, take_rows
from .expectations import load_expectations
from .fingerprint import (
    describe_behaviour,
    describe_what_happened,
    show_answer,
    show_expected_arrays,
)
from .formulas import judge_by_claims, judge_by_formula
from .model import Answer, Context, Died, Mistaken, NotSupported, Raised, Replied, TimedOut, Verdict

__all__ = ["EXPECTATIONS", "choose_expectation", "follow_up", "judge"]

#: The expectations of the suite. Loading their modules registers them, so that cases can name them.
EXPECTATIONS: tuple[type[Expectation], ...] = load_expectations()


#: The statuses of answers that keep the rule of their case. Only these answers are judged by other rules, too.
AGREEING = (Status.PASS, Status.QUALITY, Status.DOCUMENTED)


def choose_expectation(case: Case) -> Expectation:
    """Return the expectation that a case names.

    Raises
    ------
    ValueError
        If no expectation has this name, or if the expectation has no such parameter.
    """
    return resolve(case.expectation)


def follow_up(case: Case, first: Answer) -> Case | None:
    """Return the second call, which follows the first answer, or None if there is none."""
    return choose_expectation(case).follow_up(case, first)


def judge(context: Context, answers: Sequence[Answer]) -> Verdict:
    """Return the verdict on the answers to one case. Known failures are looked up later."""
    for answer in answers:
        if (verdict := _judge_no_answer(answer)) is not None:
            return verdict
    expectation = choose_expectation(context.case)
    if (whole := expectation.judge_whole(context, answers)) is not None:
        return whole
    # The short word describes the first answer, unless a later call raised.
    telling = answers[-1] if isinstance(answers[-1], Raised) else answers[0]
    behaviour = describe_behaviour(context.case, telling, expectation.about)
    try:
        found = _judge_by_rule(context, expectation, answers)
        found = _judge_by_claims(context, expectation, answers, replace(found, behaviour=behaviour))
        if found.status in AGREEING:
            also = _judge_the_rest(context, expectation, answers)
            if also is not None:
                return also
    except OraclesDisagreeError as error:
        return Verdict(Status.ERROR, str(error), behaviour=behaviour)
    return replace(found, behaviour=behaviour)


def _judge_the_rest(context: Context, expectation: Expectation, answers: Sequence[Answer]) -> Verdict | None:
    """Return a failure if the answer breaks a rule other than the rule of its case, or None if it breaks none."""
    for inner, answer in _list_other_rules(context, expectation, answers):
        rule, judge_by = inner.case.rule, resolve(inner.case.expectation)
        found = judge_by.judge_replies(inner, [take_rows(inner.case, answer.reply)])
        if found.status != Status.FAIL:
            continue
        behaviour = describe_behaviour(inner.case, answer, judge_by.about)
        found = _judge_by_claims(inner, judge_by, [answer], replace(found, behaviour=behaviour))
        if found.status == Status.FAIL:
            detail = f"The answer breaks {rule}: {found.detail}"
            return replace(found, detail=detail, behaviour=behaviour, breaks=rule)
    return None


def _list_other_rules(
    context: Context, expectation: Expectation, answers: Sequence[Answer]
) -> Iterator[tuple[Context, Replied]]:
    """Yield the cases of the other rules that each reply must keep, with the reply."""
    following = expectation.follow_up(context.case, answers[0])
    for case, answer in zip((context.case, following), answers, strict=False):
        if case is not None and isinstance(answer, Replied):
            for _, other in list_also_expected(replace(context, case=case), take_rows(case, answer.reply)):
                yield replace(context, case=other), answer


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
            detail = (
                "A list of clipped gradients or an error was expected, "
                f"but the call {describe_what_happened(case, each)}."
            )
            return Verdict(Status.FAIL, detail, observed=show_answer(each))
        if isinstance(each, Raised) and each.kind == MISMATCH:
            # Some rules accept an error. On a cluster, this is none: the ranks wait for each other for ever.
            detail = f"All ranks must enter the same collectives, but the call {describe_what_happened(case, each)}."
            return Verdict(Status.FAIL, detail, observed=show_answer(each))
    if (found := expectation.judge_answers(context, answers)) is not None:
        return found
    for each in answers:
        if not isinstance(each, Replied):
            expected = {"gradients": show_expected_arrays(case, predict(case).gradients)}
            detail = f"A result was expected, but the call {describe_what_happened(case, each)}."
            return Verdict(Status.FAIL, detail, expected=expected, observed=show_answer(each))
    replies = [take_rows(case, each.reply) for each in answers if isinstance(each, Replied)]
    if (broken := find_broken_form(case, replies[0])) is not None:
        return broken
    return expectation.judge_replies(context, replies)


def _judge_by_claims(context: Context, expectation: Expectation, answers: Sequence[Answer], found: Verdict) -> Verdict:
    """Compare the verdict with the claims about the documentation."""
    if found.status in (Status.UNSUPPORTED, Status.UNSPECIFIED, Status.ERROR):
        return found
    # No documentation excuses an error that changes the inputs.
    has_changed = any(
        find_first_changed(context.case, answer.inputs) is not None for answer in answers if isinstance(answer, Raised)
    )
    return judge_by_claims(
        context,
        found,
        lambda formula: judge_by_formula(context, expectation, answers, formula, found),
        is_bounded=not has_changed,
    )
