"""Judge one cell: compare the answer with the neutral rule, and then with the framework's documentation.

1. If the process died or ran out of time, or the adapter made a mistake, the cell gets a special status.
2. The expectation of the case decides between `pass`, `quality` and `fail` (see `expectation`).
3. A claim about the framework's documentation turns an answer that it predicts into `documented` (see `claims`). A
   claim gives a formula, a behaviour, such as NaN everywhere, or the domain of an option: outside it, the
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
from ..oracle.predict import OraclesDisagreeError
from .calls import Calls
from .claims import judge_by_claims
from .everywhere import list_also_expected
from .expectation import Expectation, find_broken_form, resolve
from .expectations import load_expectations
from .fingerprint import describe_what_happened, show_answer, show_expected_arrays
from .model import Answer, Context, Died, Mistaken, NotSupported, Raised, Replied, TimedOut, Verdict

#: The expectations of the suite. Loading their modules registers them, so that cases can name them.
EXPECTATIONS: tuple[type[Expectation], ...] = load_expectations()


#: The statuses of answers that keep the rule of their case. Only these answers are judged by other rules, too.
AGREEING = (Status.PASS, Status.QUALITY, Status.DOCUMENTED)


def choose_expectation(case: Case) -> Expectation:
    """Return the expectation that a case names (see `resolve`)."""
    return resolve(case.expectation)


def follow_up(case: Case, first: Answer | None) -> Case | None:
    """Return the second call, or None if there is none. `first` is None before the first call is answered."""
    return choose_expectation(case).follow_up(case, first)


def judge(context: Context, answers: Sequence[Answer]) -> Verdict:
    """Return the verdict on the answers to one case. Known failures are looked up later."""
    for answer in answers:
        if (verdict := _judge_no_answer(answer)) is not None:
            return verdict
    calls = Calls(context, answers)
    try:
        found = judge_by_claims(calls, replace(_compare(calls), behaviour=calls.behaviour))
        if found.status in AGREEING:
            found = _judge_under_other_rules(calls, found)
    except OraclesDisagreeError as error:
        return Verdict(Status.ERROR, str(error), behaviour=calls.behaviour)
    if found.breaks is not None:
        return replace(found, detail=f"The answer breaks {found.breaks}: {found.detail}")
    return found


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


def _compare(calls: Calls) -> Verdict:
    """Compare the answers with the expectation of their case."""
    context, expectation = calls.context, calls.expectation
    for answer in calls.answers:
        if isinstance(answer, Replied) and answer.reply.malformed is not None and not expectation.takes_malformed:
            return _fail(context, answer, "A list of clipped gradients or an error was expected")
        if isinstance(answer, Raised) and answer.kind == MISMATCH:
            # Some rules accept an error. On a cluster, this is none: the ranks wait for each other for ever.
            return _fail(context, answer, "All ranks must enter the same collectives")
    if (found := expectation.judge_answers(context, calls.answers)) is not None:
        return found
    for answer in calls.answers:
        if not isinstance(answer, Replied):
            expected = {"gradients": show_expected_arrays(context.case)}
            return replace(_fail(context, answer, "A result was expected"), expected=expected)
    if (broken := find_broken_form(context.case, calls.replies[0])) is not None:
        return broken
    return expectation.judge_replies(context, calls.replies)


def _fail(context: Context, answer: Answer, wanted: str) -> Verdict:
    detail = f"{wanted}, but the call {describe_what_happened(context.case, answer)}."
    return Verdict(Status.FAIL, detail, observed=show_answer(answer))


def _judge_under_other_rules(calls: Calls, found: Verdict) -> Verdict:
    """Return the failure of a rule other than the rule of the case, or else the verdict that was found."""
    for other in _list_other_rules(calls):
        judged = _compare(other)
        if judged.status == Status.FAIL:
            judged = judge_by_claims(other, replace(judged, behaviour=other.behaviour))
        if judged.status == Status.FAIL:
            return replace(judged, breaks=other.context.case.rule)
        if judged.status == Status.QUALITY and found.status == Status.PASS and calls.expectation.is_about_all:
            found = replace(judged, behaviour=other.behaviour)
    return found


def _list_other_rules(calls: Calls) -> Iterator[Calls]:
    """Yield each reply under each other rule that it must keep."""
    for case, answer in zip(calls.cases, calls.answers, strict=False):
        if isinstance(answer, Replied):
            context = calls.context if case is calls.context.case else replace(calls.context, case=case)
            for other in list_also_expected(context, answer.reply):
                yield Calls(Context(other, context.subject, context.claims), [answer])
