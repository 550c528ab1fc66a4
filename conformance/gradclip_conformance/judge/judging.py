"""The verdict on one cell: the answer is held against the neutral rule, and then against the framework's own words.

1. What kept the framework from answering (death, time limit, the adapter's own mistake) is a status of its own.
2. The expectation of the case decides `pass`, `quality` or `fail` (see `checks`).
3. A claim of the framework's documentation turns what it predicts into `documented`: a formula, when the answer is
   nearer to that formula's result than to the neutral one's and within the error of the arithmetic (see `documented`,
   also for what rounding errors do at its threshold); a behaviour at an edge, when the answer is just that.

Where the two oracles disagree, the status is `error`, whatever the answer was.

The judge looks at bits and exact numbers only; the framework's name never enters.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from ..known.claims import claims_for
from ..oracle.agreement import OraclesDisagreeError
from .answers import Answer, Died, Mistaken, NotSupported, Raised, TimedOut
from .checks import check
from .context import Context
from .fingerprint import behaviour_of, exact_behaviour
from .formulas import documented_by_formula
from .relations import follow_up
from .verdict import Verdict

__all__ = ["Context", "explained", "judge"]


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
    return replace(found, behaviour=_word(context, answers, found) if found.status == "fail" else behaviour)


def explained(context: Context, answers: Sequence[Answer], formula: Mapping[str, Any], found: Verdict) -> bool:
    """Whether a failure is just what a formula gives, as exactly as arithmetic allows."""
    return documented_by_formula(context, answers, formula, found) is not None


def _word(context: Context, answers: Sequence[Answer], found: Verdict) -> str:
    following = follow_up(context.case, answers[0])
    cases = [context.case] if following is None else [context.case, following]
    word = exact_behaviour(cases, answers, through_optimizer=context.through_optimizer)
    if not word.startswith("other:") or not found.ulp or found.ulp == math.inf:
        return word
    # Of an answer that is wrong in a later digit the numbers say nothing.
    return f"{word} off by 2^{math.floor(math.log2(found.ulp))} ulp"


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
