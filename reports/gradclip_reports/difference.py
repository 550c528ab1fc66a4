"""Compare two frameworks, entry points, versions or runs, and describe the differences, the severest first."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from gradclip_spec.rules.questions import Question

from .finding_text import write_heading
from .formula_table import FormulaRow, compare_formulas
from .lines import Cell, Finding, Run
from .statuses import UNEXPLAINED, UNJUDGED, Status, rank_severity
from .values import escape_line

#: A description for each word of `Cell.behaviour`.
BEHAVIOURS = {
    "unchanged": "the gradients come back unchanged",
    "all-nan": "the gradients become NaN",
    "all-zero": "the gradients become zero",
    "sign-flipped": "the gradients change their signs",
    "partly-nonfinite": "some elements become NaN or infinite",
    "norm-infinite": "the norm that is returned is infinite",
    "norm-zero": "the norm that is returned is zero",
    "norm-nan": "the norm that is returned is NaN",
}

RIGHT = "right, as the rule says"


@dataclass(frozen=True)
class Side:
    """One of the two compared sides: a run, and for each operation one entry point, and one on a mesh."""

    name: str
    run: Run
    entry_points: tuple[str, ...]


@dataclass(frozen=True)
class Contrast:
    """Two different answers to one question, in words, and the cases in which the sides differ like this."""

    severity: str
    first: str
    second: str
    cases: tuple[str, ...]
    #: The cell of each side in an example: the case in float32, if there is one, with the shortest input.
    cells: tuple[Cell, Cell]

    @property
    def quotes(self) -> tuple[str, str]:
        """For each side, the phrase of its documentation that describes its answer, or an empty text."""
        return self.cells[0].quote or "", self.cells[1].quote or ""


@dataclass(frozen=True)
class Difference:
    """One question that the two sides answer differently. The severest and most frequent contrast comes first."""

    question: str
    contrasts: tuple[Contrast, ...]

    @property
    def severity(self) -> str:
        """The worst severity."""
        return self.contrasts[0].severity

    @property
    def count(self) -> int:
        """The number of cases."""
        return sum(len(one.cases) for one in self.contrasts)


@dataclass(frozen=True)
class Compared:
    """All differences, the rules that only one side supports, and the number of cases with equal answers."""

    names: tuple[str, str]
    differences: tuple[Difference, ...]
    only: tuple[tuple[str, ...], tuple[str, ...]]
    same: int
    #: The formulas of both sides, in words.
    formulas: tuple[FormulaRow, ...] = ()

    @property
    def severities(self) -> set[str]:
        """The severities of all contrasts."""
        return {contrast.severity for difference in self.differences for contrast in difference.contrasts}


class _Pair(NamedTuple):
    cells: tuple[Cell, Cell]
    findings: tuple[Finding | None, Finding | None]


def compare(first: Side, second: Side, dtypes: Collection[str] = (), questions: Sequence[Question] = ()) -> Compared:
    """Compare, case by case, the cells that both sides answered. With questions, compare the formulas, too."""
    cells = [_select_cells(side, dtypes) for side in (first, second)]
    causes = [side.run.map_singles() for side in (first, second)]
    groups: dict[tuple[str, str, str], list[_Pair]] = {}
    same = 0
    for form in (form for form in cells[0] if form in cells[1]):
        pair = _choose_cells(cells[0][form], cells[1][form], causes)
        findings = (causes[0].get(pair[0].pair), causes[1].get(pair[1].pair))
        told = (_describe_answer(pair[0], findings[0]), _describe_answer(pair[1], findings[1]))
        if told[0] == told[1] and _have_equal_answers(pair, findings):
            same += 1
            continue
        groups.setdefault((_choose_question(findings, pair[0]), *told), []).append(_Pair(pair, findings))
    rules = [{cell.rule for same_form in of_side.values() for cell in same_form} for of_side in cells]
    return Compared(
        (first.name, second.name),
        _join_contrasts(groups),
        (tuple(sorted(rules[0] - rules[1])), tuple(sorted(rules[1] - rules[0]))),
        same,
        tuple(compare_formulas((first.run, second.run), tuple(map(_leave_out_meshes, (first, second))), questions)),
    )


def _join_contrasts(groups: Mapping[tuple[str, str, str], Sequence[_Pair]]) -> tuple[Difference, ...]:
    by_question: dict[str, list[Contrast]] = {}
    for (question, first, second), pairs in groups.items():
        by_question.setdefault(question, []).append(_make_contrast(first, second, pairs))
    found = [
        Difference(question, tuple(sorted(many, key=lambda one: (rank_severity(one.severity), -len(one.cases)))))
        for question, many in by_question.items()
    ]
    return tuple(sorted(found, key=lambda one: (rank_severity(one.severity), -one.count)))


def _make_contrast(first: str, second: str, pairs: Sequence[_Pair]) -> Contrast:
    told = [one.severity for pair in pairs for one in pair.findings if one is not None]
    smallest = min(
        (pair.cells for pair in pairs),
        key=lambda cells: (cells[0].dtype != "float32", len(str(cells[0].input or cells[1].input))),
    )
    severity = min(told, key=rank_severity, default="recorded")
    return Contrast(severity, first, second, tuple(pair.cells[0].case for pair in pairs), smallest)


def _select_cells(side: Side, dtypes: Collection[str]) -> dict[str, list[Cell]]:
    """Return the cells that were answered, by the form of the case: the case without the mesh and its axis.

    Two engines seldom have the same mesh. So a form may have a cell for each axis of a mesh; any other case is a form
    of its own.
    """
    found: dict[str, list[Cell]] = {}
    for cell in side.run.cells:
        if cell.subject in side.entry_points and cell.status != "unsupported" and (not dtypes or cell.dtype in dtypes):
            rule, _, rest = cell.case.partition("/")
            variant, _, dtype = rest.rpartition("/")
            # What follows "@" in a variant names the axis and the mesh of a case.
            found.setdefault(f"{rule}/{variant.partition('@')[0]}/{dtype}", []).append(cell)
    return found


def _choose_cells(
    first: Sequence[Cell], second: Sequence[Cell], causes: Sequence[Mapping[tuple[str, str], Finding]]
) -> tuple[Cell, Cell]:
    """Return the worst cell of each side. If both sides have the same cases, both cells are of the same case."""
    shared = {cell.case for cell in first} & {cell.case for cell in second}
    if not shared:
        return _find_worst(first, causes[0]), _find_worst(second, causes[1])
    by_case = [{cell.case: cell for cell in cells} for cells in (first, second)]
    worst = [
        _find_worst([cell for cell in cells.values() if cell.case in shared], known)
        for cells, known in zip(by_case, causes, strict=True)
    ]
    case = min(worst, key=lambda cell: cell.status == Status.PASS).case
    return by_case[0][case], by_case[1][case]


def _find_worst(cells: Iterable[Cell], causes: Mapping[tuple[str, str], Finding]) -> Cell:
    """Return the cell with the severest finding, or the first one if there is none."""

    def rank(cell: Cell) -> float:
        finding = causes.get(cell.pair)
        return math.inf if finding is None else rank_severity(finding.severity)

    return min(cells, key=rank)


def _describe_answer(cell: Cell, finding: Finding | None) -> str:
    """Describe what a framework does, in the same words for all cases of one cause."""
    word = cell.behaviour.partition(":")[0]
    if cell.status == "pass":
        return RIGHT
    came = f"raises {cell.behaviour.partition(':')[2]}" if word == "raises" else BEHAVIOURS.get(word, "")
    if cell.status in UNJUDGED:
        return came or "other numbers"
    # A short description is enough, because the question gives the context.
    return came or (write_heading(finding) if finding is not None else f"{cell.status}: {word}")


def _have_equal_answers(pair: tuple[Cell, Cell], findings: Sequence[Finding | None]) -> bool:
    """Return whether two answers with the same description count as equal.

    Two answers count as equal if both are right or both are not judged. If one cause explains both, they count as
    equal, too, because they differ at most by rounding. Answers that nothing explains count as equal only if the same
    was observed.
    """
    explained = all(finding is not None and finding.cause != UNEXPLAINED for finding in findings)
    return explained or pair[0].status in (Status.PASS, *UNJUDGED) or pair[0].observed == pair[1].observed


def _choose_question(findings: Sequence[Finding | None], cell: Cell) -> str:
    told = [one for one in findings if one is not None]
    if not told:
        return f"What does {cell.rule} give?"
    return escape_line(min(told, key=lambda one: rank_severity(one.severity)).question)


def _list_on_meshes(run: Run) -> set[str]:
    return {cell.subject for cell in run.cells if cell.rule.endswith(".shards-as-whole")}


def choose_on_meshes(run: Run) -> tuple[str, ...]:
    """Return for each operation the entry point on a mesh that answered most cases."""
    on_meshes = _list_on_meshes(run)
    header = replace(run.header, subjects=[one for one in run.header.subjects if one["name"] in on_meshes])
    return choose_entry_points(replace(run, header=header))


def _leave_out_meshes(side: Side) -> tuple[str, ...]:
    on_meshes = _list_on_meshes(side.run)
    return tuple(name for name in side.entry_points if name not in on_meshes) or side.entry_points


def choose_entry_points(run: Run, wanted: Iterable[str] = ()) -> tuple[str, ...]:
    """Return the named entry points, or for each operation the entry point that answered most cases."""
    named = tuple(wanted)
    if named:
        return named
    answered = Counter(cell.subject for cell in run.cells if cell.status != "unsupported")
    best: dict[str, str] = {}
    for entry_point in run.header.subjects:
        name, operation = entry_point["name"], entry_point["operation"]
        if operation not in best or answered[name] > answered[best[operation]]:
            best[operation] = name
    return tuple(best.values())
