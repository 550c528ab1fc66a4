"""Answer the questions of the matrix from a run, in a word and a glyph for each framework.

An answer is derived from the cells that a question names, never written by hand. Cells that could not be asked give no
answer, and cells that a cause of another question explains belong to that question.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from gradclip_adapters.operations import OPERATIONS
from gradclip_spec.rules.questions import Question, Words

from ..lines import Cell, Finding, Run
from ..statuses import STATUSES, UNEXPLAINED, UNJUDGED, Status, rank_severity
from ..values import escape_line, group_by, shorten_text
from .catalogue import OPERATION_LABELS, OTHER_LABELS, Catalogue

#: The prefixes of the rules of each operation, in the order in which an answer is looked for.
PREFIXES = {name: OPERATIONS[name].prefix for name in (*OPERATION_LABELS, *OTHER_LABELS) if name}

#: The standings of answers, worst first, with a glyph and a meaning.
STANDINGS = {
    "broken": ("✗", "breaks a rule"),
    "poor": ("≈", "poor, as the dtype's arithmetic explains"),
    "documented": ("§", "differs as its documentation says"),
    "right": ("✓", "as the rules say"),
    "measured": ("○", "measured, not judged"),
    "unknown": ("–", "not asked, not measured, or not offered"),
}

#: The standing of each status. A status that is not named here breaks a rule.
STANDING_OF = dict.fromkeys(STATUSES, "broken") | {
    Status.PASS: "right",
    Status.QUALITY: "poor",
    Status.DOCUMENTED: "documented",
    **dict.fromkeys(UNJUDGED, "unknown"),
}

#: If an entry point has no other answer to a question, one of these causes may be its answer.
_GENERAL = frozenset({"raises", "crashes", "hangs", "malformed", UNEXPLAINED})

#: Longer words would not fit into a table.
_LENGTH = 60

#: The dtype that answers the questions of accuracy and speed, and the size for accuracy.
_DTYPE, _SIZE = "float32", 10**7


@dataclass(frozen=True)
class Answer:
    """What some entry points of a framework do."""

    standing: str
    words: str
    severity: str = ""
    #: The entry points that answer so.
    entry_points: tuple[str, ...] = ()
    #: The number of entry points that were asked.
    asked: int = 0
    #: The place of the finding in the run.
    finding: int | None = None
    #: The first case that shows it.
    case: str = ""

    @property
    def glyph(self) -> str:
        """The sign of the standing."""
        return STANDINGS[self.standing][0]

    @property
    def rank(self) -> tuple[int, int]:
        """The place among answers, worst first."""
        return [*STANDINGS].index(self.standing), rank_severity(self.severity)


@dataclass(frozen=True)
class _Asked:
    run: Run
    cells: Mapping[str, Sequence[Cell]]
    findings: Mapping[tuple[str, str], int]
    #: The findings without parts, and the parts of the others. Questions name the causes of parts, not of groups.
    parts: Mapping[tuple[str, str], Finding]


def answer_run(run: Run, catalogue: Catalogue, operation: str = "") -> dict[str, tuple[Answer, ...]]:
    """Return the answers of a run to every question: what most entry points do comes first, then the worst.

    No two answers to a question are equal.

    Parameters
    ----------
    run
        The run.
    catalogue
        The questions and the tables of measurements.
    operation
        Answer for this operation only. If it is empty, the first of `PREFIXES` that can answer a question does.
    """
    return _answer_each(run, catalogue, [operation])[operation]


def answer_operations(run: Run, catalogue: Catalogue) -> dict[str, dict[str, tuple[Answer, ...]]]:
    """Return what :func:`answer_run` returns for each operation, and for the first that can answer (the key "")."""
    return _answer_each(run, catalogue, ["", *PREFIXES])


def write_answer(answers: Sequence[Answer]) -> str:
    """Return what most entry points do in a few words, with the number of the others and the sign of the worst."""
    others = find_others(answers)
    if not others:
        return " or ".join(dict.fromkeys(answer.words for answer in answers))
    worst = min(others, key=lambda answer: answer.rank)
    number = sum(len(answer.entry_points) for answer in others)
    return f"{answers[0].words} ({worst.glyph} {number} of {worst.asked})"


def find_others(answers: Sequence[Answer]) -> Sequence[Answer]:
    """Return the answers of the entry points that do not do what most do. Answers that are all right do not count."""
    is_alike = all(answer.standing == answers[0].standing == "right" for answer in answers)
    return [] if is_alike else answers[1:]


def _answer_each(run: Run, catalogue: Catalogue, operations: Sequence[str]) -> dict[str, dict[str, tuple[Answer, ...]]]:
    cells = group_by(lambda cell: cell.rule, run.cells)
    findings = {pair: number for number, finding in enumerate(run.findings) for pair in finding.pairs}
    asked = _Asked(run, cells, findings, run.map_singles())
    # Without an operation, the answers of all operations are needed.
    names = [*PREFIXES] if "" in operations else operations
    found = {
        question.id: {name: _answer_of(asked, question, name) for name in names} for question in catalogue.questions
    }
    return {
        operation: {
            question.id: _answer(run, question, catalogue, operation, found[question.id])
            for question in catalogue.questions
        }
        for operation in operations
    }


def _answer(
    run: Run, question: Question, catalogue: Catalogue, operation: str, by_operation: Mapping[str, tuple[Answer, ...]]
) -> tuple[Answer, ...]:
    if question.measure:
        return (_measure(run, question, catalogue, operation),)
    names = [operation] if operation else [*PREFIXES]
    found = [by_operation[name] for name in names]
    known = [answers for answers in found if answers and answers[0].standing != "unknown"]
    unknown = [answers for answers in found if answers]
    offered = {entry_point["operation"] for entry_point in run.header.subjects} & set(names)
    return (known or unknown or [(Answer("unknown", "not asked" if offered else "not offered"),)])[0]


def _answer_of(asked: _Asked, question: Question, operation: str) -> tuple[Answer, ...]:
    """Return the answers for one operation. There is no answer if the operation has no cell of the question."""
    cells = list(_select_cells(asked, question, operation))
    judged = [cell for cell in cells if cell.status not in UNJUDGED]
    if not judged:
        return (_explain_silence(question, cells),) if cells else ()
    worst: list[Answer] = []
    for mine in group_by(lambda cell: cell.subject, judged).values():
        told = [_describe(asked, question, cell) for cell in _choose_cells(asked, question, mine)]
        worst.append(min(told, key=lambda one: one.rank))
    grouped = group_by(lambda answer: (answer.standing, answer.words), worst)
    joined = [_join(group, len(worst)) for group in grouped.values()]
    return tuple(sorted(joined, key=lambda one: (-len(one.entry_points), one.rank)))


def _choose_cells(asked: _Asked, question: Question, cells: Sequence[Cell]) -> Sequence[Cell]:
    """Return the cells that answer a question. If causes of other questions explain all of them, return them all."""
    for causes in (("", *question.causes), tuple(_GENERAL)):
        if found := [cell for cell in cells if _find_cause(asked, cell) in causes]:
            return found
    return cells


def _join(group: Sequence[Answer], total: int) -> Answer:
    first = min(group, key=lambda one: one.rank)
    entry_points = tuple(name for one in group for name in one.entry_points)
    return Answer(first.standing, first.words, first.severity, entry_points, total, first.finding, first.case)


def _select_cells(asked: _Asked, question: Question, operation: str) -> Iterator[Cell]:
    for pattern in question.rules:
        name, _, variant = pattern.partition("/")
        for cell in asked.cells.get(f"{PREFIXES[operation]}.{name}", ()):
            # What follows "@" in a variant names the mesh of a case.
            fits = not variant or cell.case.split("/")[1].partition("@")[0] == variant
            if fits and (not question.dtypes or cell.dtype in question.dtypes):
                yield cell


def _find_cause(asked: _Asked, cell: Cell) -> str:
    finding = asked.parts.get(cell.pair)
    return finding.cause if finding is not None else ""


def _describe(asked: _Asked, question: Question, cell: Cell) -> Answer:
    finding = asked.parts.get(cell.pair)
    standing = STANDING_OF[cell.status]
    words = _choose_words(question.answers, cell, finding)
    severity = "" if finding is None or standing == "right" else finding.severity
    number = asked.findings.get(cell.pair)
    return Answer(standing, words, severity, (cell.subject,), 1, number, cell.case)


def _choose_words(answers: Iterable[Words], cell: Cell, finding: Finding | None) -> str:
    parameters = finding.parameters if finding is not None else {}
    for words in answers:
        if _holds(words, cell, finding):
            return _fill(words.words, parameters)
    return "other"


def _holds(words: Words, cell: Cell, finding: Finding | None) -> bool:
    wanted = {
        words.cause: finding.cause if finding is not None else None,
        words.behaviour: cell.behaviour.partition(":")[0],
        words.rule: cell.rule.partition(".")[2],
        words.lacks: cell.lacks,
        words.operation: cell.operation,
    }
    right = words.right is None or words.right == (cell.status == Status.PASS)
    return right and all(found == name for name, found in wanted.items() if name)


def _fill(words: str, parameters: Mapping[str, Any]) -> str:
    """Put parameters of a finding into words. They come from a record, so they are escaped and cut."""

    def write(found: re.Match[str]) -> str:
        value = parameters.get(found[1], found[1])
        return f"{value:g}" if isinstance(value, float) else shorten_text(escape_line(str(value)), _LENGTH)

    return re.sub(r"\{(\w+)\}", write, words)


def _explain_silence(question: Question, cells: Sequence[Cell]) -> Answer:
    """Return why no cell could be asked: what most of them lack. There is at least one cell."""
    (lacks, _), *_ = Counter(cell.lacks or "" for cell in cells).most_common(1)
    cell = next(one for one in cells if (one.lacks or "") == lacks)
    known = any(words.lacks == lacks for words in question.answers) if lacks else False
    words = _choose_words(question.answers, cell, None) if known else "not asked"
    return Answer("unknown", words, case=cell.case)


# Measurements.


def _measure(run: Run, question: Question, catalogue: Catalogue, operation: str) -> Answer:
    wanted = operation or next(iter(PREFIXES))
    found: Answer | None = None
    if question.measure == "accuracy":
        found = _measure_accuracy(run, catalogue, wanted)
    elif question.measure == "speed" and OPERATIONS[wanted].is_global:
        found = _measure_speed(run, question, catalogue)
    return found or Answer("unknown", "not measured")


def _measure_accuracy(run: Run, catalogue: Catalogue, operation: str) -> Answer | None:
    """Return the largest error of an entry point at the size of the question, in ulp."""
    entry_points = {one["name"] for one in run.header.subjects if one["operation"] == operation}
    rows = [
        row
        for row in catalogue.list_errors(run.header.adapter, run.header.framework["version"])
        if row["subject"] in entry_points and (row["dtype"], row["size"]) == (_DTYPE, _SIZE)
    ]
    norms = [float(row["norm"]) for row in rows if row["norm"] is not None]
    if norms:
        return _describe_error(max(norms), "")
    # If no norm is returned, the largest error of an element shows the error of the norm.
    elements = [float(row["elements"]) for row in rows]
    return _describe_error(max(elements), " in results") if elements else None


def _describe_error(ulp: float, where: str) -> Answer:
    # A function that rounds once is within half an ulp. One that adds its own rounding is within one.
    standing = "right" if ulp <= (1 if not where else 2) else "poor"
    # Two digits are enough, and a large number with an exponent is hard to read.
    number = f"{float(f'{ulp:.2g}'):,g}" if ulp < 10**6 or math.isinf(ulp) else f"{ulp / 10**6:.2g} million"
    return Answer(standing, f"{number} ulp{where}")


def _measure_speed(run: Run, question: Question, catalogue: Catalogue) -> Answer | None:
    """Return how much longer a clip takes than one pass over the memory, from the table of speeds."""
    peer = question.peers.get(run.header.adapter)
    # Other modes are about other norms, or about gradients that are not clipped.
    rows = [
        row
        for row in catalogue.speeds
        if (row["workload"], row["dtype"]) == (question.workload, _DTYPE) and row["mode"] in ("in place", "functional")
    ]
    # Several libraries measure the memory. The fastest of them comes closest to what the machine can do.
    kind = question.floor.partition(" (")[0]
    floor = min((row["theirs"] for row in rows if row["peer"].partition(" (")[0] == kind), default=0)
    if peer is None or not floor > 0:
        return None
    mine = [row for row in rows if row["peer"] == (peer or question.floor)]
    # Prefer the clip in place: like the floor, it writes to the memory that it reads.
    chosen = next((row for row in mine if row["mode"] == "in place"), mine[0] if mine else None)
    if chosen is None:
        return None
    return Answer("measured", f"{(chosen['ours'] if not peer else chosen['theirs']) / floor:.1f} passes")
