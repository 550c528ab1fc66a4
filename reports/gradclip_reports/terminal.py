"""Write the report for a terminal, legible in 80 columns and without colour."""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence

from rich import box
from rich.console import Console, Group, RenderableType
from rich.measure import Measurement
from rich.padding import Padding
from rich.table import Table as Grid
from rich.text import Text

from .failures import FailureGroup, NotRun, group_failures, group_not_run, list_values
from .lines import Header, Run
from .matrix import Column, Matrix, Table, Tally, build_matrix
from .statuses import NOT_RUN, STATUSES, Status
from .values import escape_text, format_cell_count, shorten_text

__all__ = ["draw_terminal", "report"]

#: At most this many failures are shown in full. The others get a line each.
_IN_FULL = 12

#: The largest length of an input, an expected or an observed value.
_VALUE_LENGTH = 320

#: The largest length of a detail, a screen or two. A framework's message may be a whole traceback.
_DETAIL_LENGTH = 4000

#: An arbitrary height. Without one, rich ignores the width of a terminal whose TERM is "dumb".
_HEIGHT = 25


def draw_terminal(runs: Sequence[Run], *, width: int = 80, color: bool = False, record: str = "FILE") -> str:
    """Return the report as text, optionally with escape codes for colours. `record` is the record's name in a shell."""
    stream = io.StringIO()
    console = Console(
        file=stream, width=width, height=_HEIGHT, force_terminal=color, color_system="standard" if color else None
    )
    console.print(report(runs, width, record), crop=False)
    # Tables pad their last column with spaces, which are useless in a log.
    return "".join(line.rstrip() + "\n" for line in stream.getvalue().splitlines())


def report(runs: Sequence[Run], width: int = 80, record: str = "FILE") -> RenderableType:
    """Return the report in a form that rich prints: key, matrix, legend, failures, verdict."""
    matrix = build_matrix(runs)
    groups = group_failures(runs)
    blocks: list[RenderableType] = [_draw_key(matrix, runs)]
    blocks += [grid for table in matrix.tables for grid in _draw_grids(table, width)]
    blocks.append(_draw_legend(matrix))
    blocks += [_draw_failure(group, len(runs) > 1) for group in groups[:_IN_FULL]]
    blocks += [_list_failures_in_short(groups[_IN_FULL:])] if groups[_IN_FULL:] else []
    blocks += [_draw_not_run(group) for group in group_not_run(runs)]
    return Group(*(part for block in blocks for part in (block, Text())), *_draw_verdict(runs, matrix, groups, record))


def _describe_run(header: Header) -> tuple[str, str]:
    """Return the framework, with the machine and the date of the check."""
    return escape_text(header.heading), escape_text(header.conditions)


def _make_grid() -> Grid:
    """Return a table whose columns are one space apart, with a line below its head."""
    return Grid(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=0)


def _draw_key(matrix: Matrix, runs: Sequence[Run]) -> RenderableType:
    """Return the table that explains each column number, with the counts of its statuses."""
    shown = list(matrix.tally.counts)
    grid = _make_grid()
    grid.show_footer = True
    grid.add_column("", justify="right")
    grid.add_column("subject" if len(runs) == 1 else "adapter", "all", overflow="fold")
    grid.add_column("cells", str(matrix.tally.total), justify="right")
    for name in shown:
        status = STATUSES[name]
        total = Text(str(matrix.tally.counts[name]), status.style)
        grid.add_column(Text(status.glyph, status.style), total, justify="right", no_wrap=True)
    for column in matrix.columns:
        label = Text(escape_text(column.name))
        if len(runs) > 1:
            framework, where = _describe_run(runs[column.number - 1].header)
            label = Text.assemble((framework, "bold"), "\n", (where, "dim"))
        counts = [_count(column.tally, name) for name in shown]
        grid.add_row(str(column.number), label, str(column.tally.total), *counts)
    if len(runs) > 1:
        return grid
    framework, where = _describe_run(runs[0].header)
    return Group(Text.assemble((framework, "bold"), "  ", (where, "dim")), Text(), grid)


def _count(tally: Tally, name: str) -> Text:
    return Text(str(tally.counts[name]), STATUSES[name].style) if name in tally.counts else Text()


def _draw_grids(table: Table, width: int) -> Iterator[Grid]:
    """Yield the table of one operation in the fullest form that fits. Split it in halves if none fits."""
    console = Console(width=10_000, height=_HEIGHT)
    for names, detail in ((True, 3), (True, 2), (False, 3), (False, 2), (False, 1)):
        grid = _draw_grid(table, names, detail)
        if Measurement.get(console, console.options, grid).maximum <= width:
            yield grid
            return
    if len(table.columns) == 1:
        yield grid
        return
    middle = len(table.columns) // 2
    yield from _draw_grids(table.take_part(0, middle), width)
    yield from _draw_grids(table.take_part(middle, len(table.columns)), width)


def _draw_grid(table: Table, names: bool, detail: int) -> Grid:
    grid = _make_grid()
    grid.add_column(Text(table.operation, "bold"), no_wrap=True)
    grid.add_column("", no_wrap=True, style="dim")
    for column in table.columns:
        grid.add_column(_draw_heading(column) if names else str(column.number), no_wrap=True)
    for section in table.sections:
        if section.theme:
            grid.add_row(Text(escape_text(section.theme), "italic"))
        indent = " " if section.theme else ""
        for row in section.rows:
            places = [Text() if tally is None else _draw_cell(tally, detail) for tally in row.tallies]
            level = row.level if row.level != "unspecified" else ""
            grid.add_row(Text(indent + escape_text(row.label)), level, *places)
    return grid


def _draw_heading(column: Column) -> Text:
    return Text(f"{escape_text(column.name)}\n{escape_text(column.version)}".rstrip())


def _draw_cell(tally: Tally, detail: int) -> Text:
    """Return the statuses of a place: all with counts (3), the worst with its count (2), or its sign alone (1)."""
    if detail == 1:
        return Text(tally.worst.glyph, tally.worst.style)
    shown = list(tally.counts.items())[: None if detail == 3 else 1]
    return Text(" ").join(Text(f"{STATUSES[name].glyph}{count}", STATUSES[name].style) for name, count in shown)


def _draw_legend(matrix: Matrix) -> RenderableType:
    grid = Grid.grid(padding=(0, 2, 0, 0))
    for name in matrix.tally.counts:
        status = STATUSES[name]
        grid.add_row(Text(f"{status.glyph} {status.value}", status.style), Text(matrix.find_meaning(status), "dim"))
    grid.add_row("(blank)", Text("no case of this rule in this column", "dim"))
    how = "A number counts the cells of the status before it. The worst status comes first, or is the only one shown."
    return Group(grid, Text(how, "dim"))


def _draw_failure(group: FailureGroup, several: bool) -> Group:
    """Return the first cell of a group in full, and the number of all its cells."""
    cell = group.first
    head = _add_sign(group.status).append(f"  {escape_text(cell.rule)}", "bold").append(f"  ({cell.level})", "not bold")
    if several:
        head.append(f"  {_describe_run(group.header)[0]}", "not bold")
    subjects = "\n".join(f"{name}{_format_times(count)}" for name, count in group.subjects.items())
    text = Text(escape_text(f"{subjects}\n{shorten_text(cell.detail, _DETAIL_LENGTH)}"), overflow="fold")
    grid = Grid.grid(padding=(0, 2, 0, 0))
    for name, value in _list_facts(group):
        grid.add_row(Text(name, "dim"), Text(escape_text(value), overflow="fold"))
    return Group(head, Padding(text, (0, 0, 0, 2)), Padding(grid, (0, 0, 0, 4)))


def _format_times(count: int) -> str:
    return f" ({format_cell_count(count)})" if count > 1 else ""


def _list_facts(group: FailureGroup) -> Iterator[tuple[str, str]]:
    cell = group.first
    yield "case", cell.case
    yield from list_values(cell, _VALUE_LENGTH)
    if cell.ulp is not None:
        yield "off by", f"{cell.ulp:g} ulp"
    if cell.quote is not None:
        yield "documented", f'"{shorten_text(cell.quote, _VALUE_LENGTH)}"'
    if cell.url is not None:
        yield "see", shorten_text(cell.url, _VALUE_LENGTH)
    if len(group.cells) > 1:
        yield "in all", f"{_count_cells(group)}; the first is shown"


def _add_sign(status: Status) -> Text:
    return Text(f"{status.glyph} {status.value}", status.style)


def _count_cells(group: FailureGroup) -> str:
    return f"{len(group.cells)} {group.status.value}"


def _list_failures_in_short(groups: Sequence[FailureGroup]) -> Text:
    text = Text(f"{len(groups)} more, in short:", "bold")
    for group in groups:
        text.append("\n").append(group.status.glyph, group.status.style)
        text.append(
            escape_text(f" {group.first.rule}  {', '.join(group.subjects)}  ({_count_cells(group)})"), "not bold"
        )
    return text


def _draw_not_run(group: NotRun) -> Text:
    status = STATUSES[NOT_RUN]
    text = Text(
        f"{status.glyph} did not run: {format_cell_count(group.total)} of {escape_text(group.subject)}", status.style
    )
    rules = ", ".join(f"{rule}{_format_times(count)}" for rule, count in group.rules.items())
    return text.append("\n  " + escape_text(rules), "not bold default")


def _draw_verdict(runs: Sequence[Run], matrix: Matrix, groups: Sequence[FailureGroup], record: str) -> Iterator[Text]:
    tally = matrix.tally
    told_elsewhere = any(len(group.cells) > 1 for group in groups) or len(groups) > _IN_FULL
    if told_elsewhere or {"known", "documented"} & tally.counts.keys():
        how = "This command lists each cell that did not pass, with its reason and its answer:"
        # Put the command on a separate line that is never wrapped, so that it can be copied.
        yield Text(
            f"{how}\n  gradclip summary --format json {escape_text(record)}", "dim", overflow="ignore", no_wrap=True
        )
    for run in runs:
        if run.cells and not run.is_judged:
            framework = _describe_run(run.header)[0]
            yield Text(f"No cell of {framework} was judged: none is both supported and specified.", "bold")
    others = [f"{count} {name}" for name, count in tally.counts.items() if name != "pass"]
    text = Text(f"{tally.passed} of {tally.total} cells passed" + "".join(f", {other}" for other in others) + ". ")
    as_expected = all(run.is_as_expected for run in runs)
    yield text.append(*("As expected.", "bold green") if as_expected else ("Not as expected.", "bold red"))
