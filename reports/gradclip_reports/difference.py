"""Compare two frameworks, entry points, versions or runs: in sentences, the severest difference first."""

from __future__ import annotations

import textwrap
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from .lines import Cell, Finding, Run
from .markup import code, escape_markdown
from .statuses import SEVERITIES, UNJUDGED
from .told import heading
from .values import counted, json_text, plain_line, readable, shortened

__all__ = ["Compared", "Difference", "Side", "compare", "draw", "first_subjects"]

#: As many differences are told in full, and as many more in a line: then all fits 40 lines.
IN_FULL = 4
IN_SHORT = 6

#: Lines of an example.
EXAMPLE = 2

LENGTH = 160

#: What came back, in words; the words of `Cell.behaviour`.
BEHAVIOURS = {
    "unchanged": "the gradients come back unchanged",
    "all-nan": "NaN everywhere",
    "all-zero": "zeros",
    "sign-flipped": "the other signs",
    "partly-nonfinite": "some NaN or infinite",
    "norm-infinite": "an infinite norm",
    "norm-zero": "a norm of zero",
    "norm-nan": "a norm of NaN",
}

RIGHT = "as the rule says"


@dataclass(frozen=True)
class Side:
    """One of the two that are compared: a run, and the entry points that are looked at, the first of each operation."""

    name: str
    run: Run
    subjects: tuple[str, ...]


@dataclass(frozen=True)
class Difference:
    """One question that the two answer differently."""

    question: str
    severity: str
    first: str
    second: str
    cases: tuple[str, ...]
    #: The smallest cell, of each.
    cells: tuple[Cell, Cell]
    quotes: tuple[str, str]


@dataclass(frozen=True)
class Compared:
    """All differences, what only one can do, and how many cases are answered alike."""

    names: tuple[str, str]
    differences: tuple[Difference, ...]
    only: tuple[tuple[str, ...], tuple[str, ...]]
    same: int


def compare(first: Side, second: Side, dtypes: Collection[str] = ()) -> Compared:
    """Compare the cells that both answered, case by case."""
    cells = [_cells(side, dtypes) for side in (first, second)]
    causes = [_causes(side) for side in (first, second)]
    groups: dict[tuple[str, ...], list[tuple[Cell, Cell]]] = {}
    found: dict[tuple[str, ...], tuple[Finding | None, Finding | None]] = {}
    same = 0
    for case in (case for case in cells[0] if case in cells[1]):
        pair = (cells[0][case], cells[1][case])
        findings = (causes[0].get(_key(pair[0])), causes[1].get(_key(pair[1])))
        told = (_answer(pair[0], findings[0]), _answer(pair[1], findings[1]))
        if told[0] == told[1]:
            same += 1
            continue
        question = _question(findings, pair[0])
        groups.setdefault((question, *told), []).append(pair)
        found.setdefault((question, *told), findings)
    differences = [_difference(key, pairs, found[key]) for key, pairs in groups.items()]
    rules = [{cell.rule for cell in of_side.values()} for of_side in cells]
    return Compared(
        (first.name, second.name),
        tuple(sorted(differences, key=lambda one: (_rank(one.severity), -len(one.cases)))),
        (tuple(sorted(rules[0] - rules[1])), tuple(sorted(rules[1] - rules[0]))),
        same,
    )


def _key(cell: Cell) -> tuple[str, str]:
    return cell.subject, cell.case


def _cells(side: Side, dtypes: Collection[str]) -> dict[str, Cell]:
    """Return the cells that were answered, by case."""
    return {
        cell.case: cell
        for cell in side.run.cells
        if cell.subject in side.subjects and cell.status != "unsupported" and (not dtypes or cell.dtype in dtypes)
    }


def _causes(side: Side) -> dict[tuple[str, str], Finding]:
    return {
        (subject, case): finding
        for finding in side.run.findings
        for subject, cases in finding.cells.items()
        for case in cases
    }


def _answer(cell: Cell, finding: Finding | None) -> str:
    """Return what a framework does, in words that are the same for all cases of one cause."""
    word = cell.behaviour.partition(":")[0]
    if cell.status == "pass":
        return RIGHT
    came = f"raises {cell.behaviour.partition(':')[2]}" if word == "raises" else BEHAVIOURS.get(word, "")
    if cell.status in UNJUDGED:
        return came or "other numbers"
    what = heading(finding) if finding is not None else f"{cell.status}: {word}"
    return f"{what}: {came}" if came and came not in what else what


def _question(findings: Sequence[Finding | None], cell: Cell) -> str:
    told = [one for one in findings if one is not None]
    if not told:
        return f"What does {cell.rule} give?"
    return plain_line(min(told, key=lambda one: _rank(one.severity)).question)


def _rank(severity: str) -> int:
    return SEVERITIES.index(severity) if severity in SEVERITIES else len(SEVERITIES)


def _difference(
    key: tuple[str, ...], pairs: Sequence[tuple[Cell, Cell]], findings: tuple[Finding | None, Finding | None]
) -> Difference:
    severities = [one.severity for one in findings if one is not None]
    smallest = min(pairs, key=lambda pair: (pair[0].dtype != "float32", len(str(pair[0].input or pair[1].input))))
    return Difference(
        question=key[0],
        severity=min(severities, key=_rank, default="recorded"),
        first=key[1],
        second=key[2],
        cases=tuple(pair[0].case for pair in pairs),
        cells=smallest,
        quotes=(smallest[0].quote or "", smallest[1].quote or ""),
    )


def draw(compared: Compared, format_: str, width: int = 80) -> str:
    """Return the comparison as text for a terminal, as Markdown or as JSON."""
    if format_ == "json":
        return json_text(_document(compared), indent=2) + "\n"
    lines = _markdown(compared) if format_ == "markdown" else _terminal(compared, width)
    return "".join(f"{line.rstrip()}\n" for line in lines)


def _document(compared: Compared) -> dict[str, Any]:
    return {
        "names": list(compared.names),
        "differences": [
            {
                "question": one.question,
                "severity": one.severity,
                "answers": [one.first, one.second],
                "cases": list(one.cases),
                "example": {
                    "case": one.cells[0].case,
                    "input": one.cells[0].input or one.cells[1].input,
                    "observed": [cell.observed for cell in one.cells],
                    "quotes": list(one.quotes),
                },
            }
            for one in compared.differences
        ],
        "only": {name: list(rules) for name, rules in zip(compared.names, compared.only, strict=True)},
        "same": compared.same,
    }


def _terminal(compared: Compared, width: int) -> Iterator[str]:
    for number, one in enumerate(compared.differences[:IN_FULL], start=1):
        yield _line(f"{number}. {one.severity}: {one.question} ({counted(len(one.cases), 'case')})", width)
        for name, text in zip(compared.names, (one.first, one.second), strict=True):
            yield from _lines(f"{name}: {text}", width)
        yield from _example(one, compared.names, width)
    rest = compared.differences[IN_FULL:]
    for one in rest[:IN_SHORT]:
        yield _line(f"   {one.severity}: {one.question} ({counted(len(one.cases), 'case')})", width)
    if rest[IN_SHORT:]:
        yield f"   {counted(len(rest) - IN_SHORT, 'more difference')}: --format markdown tells all."
    yield from (line for text in _rest(compared) for line in textwrap.wrap(text, width, subsequent_indent="  "))


def _example(one: Difference, names: Sequence[str], width: int) -> Iterator[str]:
    given = one.cells[0].input or one.cells[1].input
    yield from _lines(f"{one.cells[0].case}: {readable(given) if given is not None else ''}", width)
    answers = [
        f"{name} {readable(cell.observed)}"
        for name, cell in zip(names, one.cells, strict=True)
        if cell.observed is not None
    ]
    if answers:
        yield from _lines("; ".join(answers), width)


def _lines(text: str, width: int) -> Iterator[str]:
    """Yield a text in as many lines as an example may take."""
    indent = "   "
    lines = textwrap.wrap(
        plain_line(text), width, initial_indent=indent, subsequent_indent=f"{indent}  ", break_on_hyphens=False
    )
    if lines[EXAMPLE:]:
        lines = [*lines[: EXAMPLE - 1], _line(lines[EXAMPLE - 1] + " " * width, width)]
    yield from lines


def _rest(compared: Compared) -> Iterator[str]:
    for name, rules in zip(compared.names, compared.only, strict=True):
        if rules:
            shown = ", ".join(rules[:4]) + (f" and {len(rules) - 4} more" if rules[4:] else "")
            yield plain_line(f"Only {name} can be asked about {counted(len(rules), 'rule')}: {shown}.")
    yield f"The same in {counted(compared.same, 'case')}."


def _markdown(compared: Compared) -> Iterator[str]:
    for one in compared.differences:
        yield f"### {escape_markdown(one.question)}"
        yield ""
        yield f"{escape_markdown(one.severity)}, {counted(len(one.cases), 'case')}"
        yield ""
        for name, text, cell in zip(compared.names, (one.first, one.second), one.cells, strict=True):
            shown = f": {code(shortened(readable(cell.observed), LENGTH))}" if cell.observed is not None else ""
            yield f"- {escape_markdown(name)}: {escape_markdown(text)}{shown}"
        yield f"- case: {code(one.cells[0].case)}"
        yield ""
    yield from map(escape_markdown, _rest(compared))


def _line(text: str, width: int) -> str:
    text = plain_line(text)
    return text if len(text) <= width else f"{text[: width - 4].rstrip()} ..."


def first_subjects(run: Run, wanted: Iterable[str] = ()) -> tuple[str, ...]:
    """Return the subjects that are named, or the one of each operation that answered most."""
    named = tuple(wanted)
    if named:
        return named
    answered = Counter(cell.subject for cell in run.cells if cell.status != "unsupported")
    best: dict[str, str] = {}
    for subject in run.header.subjects:
        name, operation = subject["name"], subject["operation"]
        if operation not in best or answered[name] > answered[best[operation]]:
            best[operation] = name
    return tuple(best.values())
