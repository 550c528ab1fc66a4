"""Compare failures with the known failures."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import replace

from gradclip_reports.statuses import Status

from ..causes.model import Explanation, Judged
from ..judge.judging import judge
from ..judge.model import Answer, Context
from .failures import KnownFailure

#: A function that explains one cell. It tries suspected causes first, and leaves out barred causes.
Explain = Callable[[Judged, Collection[Explanation], Collection[str]], Explanation | None]

#: The statuses of calls that end the process, and the causes that name them. Only an entry that names the cause excuses
#: such a call.
DEADLY = (Status.CRASH, Status.TIMEOUT)
DEADLY_CAUSES = frozenset({"crashes", "hangs"})


def find_entry(
    entries: Iterable[KnownFailure], case: str, entry_point: str, found: Explanation | None
) -> KnownFailure | None:
    """Return the entry that is about a cell and its explanation, or None. Entries that name the cause come first."""
    mine = [one for one in entries if one.speaks_of(case, entry_point) and one.is_shown_by(found)]
    return next((one for one in mine if one.cause), mine[0] if mine else None)


def is_known_to_end(judged: Judged) -> bool:
    """Return whether a crash or a hang is known. Then the call must be repeated alone, to show that it is to blame."""
    return (
        judged.verdict.status == Status.KNOWN
        and judged.explanation is not None
        and judged.explanation.cause in DEADLY_CAUSES
    )


def _explain_by_known(
    judged: Judged, about: Sequence[KnownFailure], explain: Explain
) -> tuple[Explanation | None, KnownFailure | None]:
    """Return the explanation and its entry. Of several causes that reproduce the answer, prefer a known one."""
    first: Explanation | None = None
    barred: list[str] = []
    while (found := explain(judged, [one.suspect for one in about], barred)) is not None:
        case, entry_point = judged.context.case.id, judged.context.subject.name
        known = find_entry(about, case, entry_point, found)
        first = first or found
        if known is not None and all(find_entry(about, case, entry_point, other) for other in found.others):
            return found, known
        if found.cause in barred:
            break
        barred.append(found.cause)
    return first, None


def judge_with_known(
    context: Context, answers: Sequence[Answer], entries: Sequence[KnownFailure], explain: Explain
) -> Judged:
    """Judge the answers to one case. A failure becomes `known` if an entry is about it and its cause.

    Parameters
    ----------
    context
        The case and the entry point that answered it.
    answers
        The answers to the case.
    entries
        The known failures of the framework that answered, in its version and on its device.
    explain
        A function that returns the explanation of a cell.
    """
    verdict = judge(context, answers)
    judged = Judged(context, answers, verdict)
    if verdict.status not in (Status.FAIL, *DEADLY):
        return judged
    about = [one for one in entries if one.speaks_of(context.case.id, context.subject.name)]
    if not about:
        return judged
    found, known = _explain_by_known(judged, [one for one in about if one.cause], explain)
    judged = replace(judged, explanation=found, is_known_cause=known is not None)
    if known is None and verdict.status == Status.FAIL:
        known = next((one for one in about if not one.cause), None)
    if known is None:
        return judged
    detail = f"{verdict.detail} Known: {known.reason}" if known.reason else verdict.detail
    return replace(judged, verdict=replace(verdict, status=Status.KNOWN, detail=detail, url=known.url))
