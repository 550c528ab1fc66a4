"""Compare failures with the known failures: first with the pinned answers, then with the pinned causes."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import replace

from gradclip_reports.statuses import Status

from ..causes.model import Explanation, Judged, Suspect
from ..judge.judging import is_explained, judge
from ..judge.model import Answer, Context, Description
from .known_causes import Entry, KnownCause
from .pins import DEADLY, Deviation, apply_pins

__all__ = ["find_entry", "is_known_to_end", "judge_with_known", "recognise"]

#: A function that explains one cell. It tries suspected causes first, and leaves out barred causes.
Explain = Callable[[Judged, Collection[Suspect], Collection[str]], Explanation | None]

#: The causes of calls that end their process.
DEADLY_CAUSES = frozenset({"crashes", "hangs"})


def find_entry(entries: Iterable[Entry], case: str, subject: str, found: Explanation) -> KnownCause | None:
    """Return the first entry that is about a cell and its explanation, or None if there is none."""
    return next(
        (
            one
            for one in entries
            if isinstance(one, KnownCause) and one.speaks_of(case, subject) and one.is_shown_by(found)
        ),
        None,
    )


def judge_with_known(
    context: Context, answers: Sequence[Answer], about: Description, entries: Sequence[Entry], explain: Explain
) -> Judged:
    """Judge the answers to one case, and compare a failure with the known failures."""
    verdict = judge(context, answers)
    holding = [one for one in entries if one.holds(about.version, about.environment)]
    pins = [one for one in holding if isinstance(one, Deviation)]
    verdict = apply_pins(
        verdict, context.case, context.subject, pins, lambda formula: is_explained(context, answers, formula, verdict)
    )
    return recognise(Judged(context, answers, verdict), holding, explain)


def is_known_to_end(judged: Judged) -> bool:
    """Return whether a crash or a hang is known. Then the call must be repeated alone, to show that it is to blame."""
    return (
        judged.verdict.status == Status.DEVIATION
        and judged.explanation is not None
        and judged.explanation.cause in DEADLY_CAUSES
    )


def _explain_by_known(
    judged: Judged, about: Sequence[KnownCause], explain: Explain
) -> tuple[Explanation | None, KnownCause | None]:
    """Return the explanation and its entry. Of several causes that reproduce the answer, prefer a known one."""
    first: Explanation | None = None
    barred: list[str] = []
    while (found := explain(judged, [one.suspect for one in about], barred)) is not None:
        case, subject = judged.context.case.id, judged.context.subject.name
        known = find_entry(about, case, subject, found)
        first = first or found
        if known is not None and all(find_entry(about, case, subject, other) for other in found.others):
            return found, known
        if found.cause in barred:
            break
        barred.append(found.cause)
    return first, None


def recognise(judged: Judged, entries: Sequence[Entry], explain: Explain) -> Judged:
    """Return a failure as `deviation` if a known cause explains it, and as `changed` if another cause does.

    Parameters
    ----------
    judged
        The cell, after it was compared with the pinned answers.
    entries
        The known failures that hold for the framework that answered.
    explain
        A function that returns the explanation of a cell.
    """
    verdict, case, subject = judged.verdict, judged.context.case, judged.context.subject.name
    if verdict.status not in (Status.FAIL, *DEADLY):
        return judged
    about = [one for one in entries if isinstance(one, KnownCause) and one.speaks_of(case.id, subject)]
    if not about:
        return judged
    found, known = _explain_by_known(judged, about, explain)
    if known is not None:
        detail = f"{verdict.detail} Known: {known.reason}" if known.reason else verdict.detail
        told = verdict.change_status(Status.DEVIATION, detail=detail, url=known.url)
        return replace(judged, verdict=told, explanation=found)
    rule = verdict.breaks or case.rule
    expected = dict.fromkeys(one.cause for one in about if one.touches(rule))
    if verdict.status == Status.FAIL and expected:
        other = f"the cause {found.cause!r}" if found is not None else "no cause that the suite knows"
        titles = " or ".join(
            dict.fromkeys(f"{one.cause!r}" for one in about if one.touches(verdict.breaks or case.rule))
        )
        detail = f"{verdict.detail} The known failure has the cause {titles}, but this answer has {other}."
        return replace(judged, verdict=verdict.change_status(Status.CHANGED, detail=detail), explanation=found)
    return replace(judged, explanation=found)
