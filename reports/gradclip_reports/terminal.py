"""Write the table of all rules for a terminal, legible in 80 columns and without colour."""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence

from rich import box
from rich.console import Console, Group, RenderableType
from rich.measure import Measurement
from rich.table import Table as Grid
from rich.text import Text

from .brief import draw_brief
from .lines import Run
from .matrix import Column, Matrix, Table, Tally, build_matrix
from .statuses import STATUSES
from .values import escape_text

#: An arbitrary height. Without one, rich ignores the width of a terminal whose TERM is "dumb".
_HEIGHT = 25


def draw_terminal(runs: Sequence[Run], *, width: int = 80, color: bool = False, record: str = "") -> str:
    """Return the table of all rules, and below it what a person reads first, as text.

    `color` adds the escape codes of colours. `record` is the record's path, quoted for a shell, or empty.
    """
    stream = io.StringIO()
    console = Console(
        file=stream, width=width, height=_HEIGHT, force_terminal=color, color_system="standard" if color else None
    )
    matrix = build_matrix(runs)
    blocks = [_draw_key(matrix, runs), *(grid for table in matrix.tables for grid in _draw_grids(table, width))]
    console.print(Group(*(part for block in (*blocks, _draw_legend(matrix)) for part in (block, Text()))), crop=False)
    # Tables pad their last column with spaces, which are useless in a log.
    table = "".join(line.rstrip() + "\n" for line in stream.getvalue().splitlines())
    return table + draw_brief(runs, width=width, record=record, color=color, hints=False)


def _make_grid() -> Grid:
    """Return a table whose columns are one space apart, with a line below its head."""
    return Grid(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=0)


def _draw_key(matrix: Matrix, runs: Sequence[Run]) -> RenderableType:
    shown = list(matrix.tally.counts)
    grid = _make_grid()
    grid.show_footer = True
    grid.add_column("", justify="right")
    grid.add_column("entry point" if len(runs) == 1 else "adapter", "all", overflow="fold")
    grid.add_column("cells", str(matrix.tally.total), justify="right")
    for name in shown:
        status = STATUSES[name]
        total = Text(str(matrix.tally.counts[name]), status.style)
        grid.add_column(Text(status.glyph, status.style), total, justify="right", no_wrap=True)
    for column in matrix.columns:
        label = Text(escape_text(column.name))
        if len(runs) > 1:
            header = runs[column.number - 1].header
            label = Text.assemble((escape_text(header.heading), "bold"), "\n", (escape_text(header.conditions), "dim"))
        counts = [_count(column.tally, name) for name in shown]
        grid.add_row(str(column.number), label, str(column.tally.total), *counts)
    return grid


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
