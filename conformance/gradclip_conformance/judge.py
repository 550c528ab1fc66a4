"""The verdict on one cell: the answer is held against the neutral rule, and then against the framework's own words.

1. What kept the framework from answering (death, time limit, the adapter's own mistake) is a status of its own.
2. The expectation of the case decides `pass`, `quality` or `fail` (see `checks`).
3. A claim of the framework's documentation turns what it predicts into `documented`: a formula, when the answer is
   nearer to that formula's result than to the neutral one's and within the error of the arithmetic (see `documented`);
   a behaviour at an edge, when the answer is just that.

Where the two oracles disagree, the status is `error`, whatever the answer was.

The judge looks at bits and exact numbers only; the framework's name never enters.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from .answers import Answer, Died, Mistaken, NotSupported, Raised, TimedOut
from .behaviour import behaviour_of
from .checks import check
from .claims import claims_for
from .context import Context
from .documented import documented_by_formula
from .oracles import OraclesDisagreeError
from .verdict import Verdict

__all__ = ["Context", "judge"]


def judge(context: Context, answers: Sequence[Answer]) -> Verdict:
    """The verdict on the answers to one case, before known deviations are looked up."""
    for answer in answers:
        if (verdict := _without_answer(answer)) is not None:
            return verdict
    behaviour = behaviour_of(context.case, _telling(answers))
    try:
        found = _own_words(context, answers, check(context, answers), behaviour)
    except OraclesDisagreeError as error:
        return Verdict("error", str(error), behaviour=behaviour)
    return replace(found, behaviour=behaviour)


def _telling(answers: Sequence[Answer]) -> Answer:
    """The answer whose word is that of all: the first, unless a later call raised."""
    return answers[-1] if isinstance(answers[-1], Raised) else answers[0]


def _without_answer(answer: Answer) -> Verdict | None:
    match answer:
        case Died(text):
            return Verdict("crash", text)
        case TimedOut(seconds):
            return Verdict("timeout", f"No answer within {seconds:g} s; the host process was ended.")
        case Mistaken(text):
            return Verdict("error", f"The adapter itself failed: {text}")
        case NotSupported(text):
            return Verdict("unsupported", f"The adapter says: {text}")
    return None


def _own_words(context: Context, answers: Sequence[Answer], found: Verdict, behaviour: str) -> Verdict:
    if found.status in ("unsupported", "unspecified", "error"):
        return found
    for claim in claims_for(context.claims, context.subject, context.case.rule):
        quoted = {"quote": claim.phrase, "url": claim.where}
        if claim.formula is not None:
            own = documented_by_formula(context, answers, claim.formula, found)
            if own is not None:
                return own.with_status("documented", **quoted)
        elif found.status == "fail" and claim.predicts in (behaviour, behaviour.partition(":")[0]):
            detail = f"{found.detail} Its documentation says so."
            return found.with_status("documented", detail=detail, **quoted)
    return found
