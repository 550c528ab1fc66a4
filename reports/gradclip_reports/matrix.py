"""Build the table that every report shows: a row for each rule, a column for each adapter or entry point."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import NamedTuple, TypeVar

from .lines import Cell, Run
from .statuses import LACKS, NOT_RUN, STATUSES, Status
from .values import Key, group_by


class Tally:
    """Count the cells of each status, worst first. A planned cell that did not run counts as `not-run`."""

    def __init__(self, statuses: Iterable[str]) -> None:
        found = Counter(statuses)
        self.counts: Mapping[str, int] = {name: found[name] for name in STATUSES if found[name]}

    @property
    def total(self) -> int:
        """Return the number of all planned cells."""
        return sum(self.counts.values())

    @property
    def passed(self) -> int:
        """Return the score, out of `total`. Only `pass` counts."""
        return self.counts.get("pass", 0)

    @property
    def worst(self) -> Status:
        """Return the most severe status."""
        return STATUSES[next(iter(self.counts))]


@dataclass(frozen=True)
class Column:
    """An entry point in a matrix of one run, or an adapter in a matrix of several runs."""

    #: The number of the column, from 1, for tables too narrow for names.
    number: int
    name: str
    version: str
    tally: Tally


@dataclass(frozen=True)
class Row:
    """One rule, with a tally for each column of its table, or None if the column has no case of the rule."""

    rule: str
    level: str
    tallies: tuple[Tally | None, ...]

    @property
    def label(self) -> str:
        """Return the rule's id without the operation, which is in the table's heading."""
        return self.rule.partition(".")[2] or self.rule


@dataclass(frozen=True)
class Section:
    """The rules of one theme. The theme is empty if the record names none."""

    theme: str
    rows: tuple[Row, ...]


@dataclass(frozen=True)
class Table:
    """One operation."""

    operation: str
    columns: tuple[Column, ...]
    sections: tuple[Section, ...]

    def take_part(self, start: int, stop: int) -> Table:
        """Return the table with some of its columns only."""
        sections = (
            Section(section.theme, tuple(Row(row.rule, row.level, row.tallies[start:stop]) for row in section.rows))
            for section in self.sections
        )
        return Table(self.operation, self.columns[start:stop], tuple(sections))


@dataclass(frozen=True)
class Matrix:
    """All tables, and the columns that they share."""

    columns: tuple[Column, ...]
    tables: tuple[Table, ...]
    tally: Tally
    #: The number of unsupported cells for each word of `statuses.LACKS`. Older records lack these words.
    lacks: dict[str, int]

    def find_meaning(self, status: Status) -> str:
        """Return the meaning of a status. For `unsupported`, add what the cells lack."""
        if status != Status.UNSUPPORTED or not self.lacks:
            return status.meaning
        return f"{status.meaning}: " + ", ".join(f"{LACKS[name]} {count}" for name, count in self.lacks.items())


class _Entry(NamedTuple):
    column: int
    operation: str
    theme: str
    rule: str
    level: str
    status: str


#: Something with a status.
Told = TypeVar("Told", Cell, _Entry)


def tally_by(key: Callable[[Told], Key], cells: Iterable[Told]) -> dict[Key, Tally]:
    """Return the tally of the cells of each key."""
    return {name: Tally(cell.status for cell in found) for name, found in group_by(key, cells).items()}


def build_matrix(runs: Sequence[Run]) -> Matrix:
    """Build the matrix. One run gives a column for each entry point, several give a column for each run.

    Operations, themes and rules are in the order in which the records first name them. In a matrix of one run, a
    table has the columns of its operation only.
    """
    names = _name_columns(runs)
    entries = [entry for number, run in enumerate(runs) for entry in _list_entries(run, number, len(runs) == 1)]
    tallies = tally_by(lambda entry: entry.column, entries)
    columns = tuple(
        Column(place + 1, name, version, tallies.get(place, Tally(()))) for place, (name, version) in enumerate(names)
    )
    tables = []
    for operation in dict.fromkeys(entry.operation for entry in entries):
        mine = [entry for entry in entries if entry.operation == operation]
        present = {entry.column for entry in mine}
        shown = tuple(column for column in columns if len(runs) > 1 or column.number - 1 in present)
        tables.append(Table(operation, shown, tuple(_build_sections(mine, shown))))
    tally = Tally(entry.status for entry in entries)
    lacks = Counter(cell.lacks for run in runs for cell in run.cells)
    return Matrix(columns, tuple(tables), tally, {name: lacks[name] for name in LACKS if name in lacks})


def _name_columns(runs: Sequence[Run]) -> list[tuple[str, str]]:
    if len(runs) == 1:
        return [(entry_point["name"], "") for entry_point in runs[0].header.subjects]
    return [(run.header.adapter, run.header.framework["version"]) for run in runs]


def _list_entries(run: Run, number: int, by_entry_point: bool) -> Iterator[_Entry]:
    places = {entry_point["name"]: place for place, entry_point in enumerate(run.header.subjects)}
    operations = {entry_point["name"]: entry_point["operation"] for entry_point in run.header.subjects}
    known = {cell.rule: cell for cell in run.cells}
    for cell in run.cells:
        column = places[cell.subject] if by_entry_point else number
        yield _Entry(column, cell.operation, cell.theme, cell.rule, cell.level, cell.status)
    for entry_point, case in run.footer.not_run:
        rule = case.partition("/")[0]
        theme, level = (known[rule].theme, known[rule].level) if rule in known else ("", "")
        column = places[entry_point] if by_entry_point else number
        yield _Entry(column, operations[entry_point], theme, rule, level, NOT_RUN)


def _build_sections(entries: Sequence[_Entry], columns: Sequence[Column]) -> Iterator[Section]:
    rows = group_by(lambda entry: entry.rule, entries)
    themes = {rule: next((entry.theme for entry in mine if entry.theme), "") for rule, mine in rows.items()}
    order = {theme: place for place, theme in enumerate(dict.fromkeys(themes.values()))}
    for theme, rules in groupby(sorted(rows, key=lambda rule: order[themes[rule]]), key=themes.__getitem__):
        yield Section(theme, tuple(_build_row(rule, rows[rule], columns) for rule in rules))


def _build_row(rule: str, entries: Sequence[_Entry], columns: Sequence[Column]) -> Row:
    tallies = tally_by(lambda entry: entry.column + 1, entries)
    level = next((entry.level for entry in entries if entry.level), "")
    return Row(rule, level, tuple(tallies.get(column.number) for column in columns))
