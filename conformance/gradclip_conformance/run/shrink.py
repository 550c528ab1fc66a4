"""Ask many rows, and shrink those that fail, for `--deep`.

A failing row has many levels that do not matter. Each level is replaced by the ordinary one of its axis, as long as the
row still breaks the same rule. What is left tells what the failure needs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from gradclip_adapters.contract import EntryPoint
from gradclip_reports.progress import show_task
from gradclip_reports.records import Cell
from gradclip_reports.statuses import STATUSES

from ..sampler.axes import list_axes
from ..sampler.constraints import find_reason
from ..sampler.rows import RowCase
from .plan import PlannedCell, Selection
from .runner import plan_rows

Ask = Callable[[PlannedCell], Cell]

#: Levels that are simpler than others, but not ordinary: few elements and few gradients. They come first.
SIMPLER = {"size": ("s1", "s2", "s4", "s9"), "number": ("n1", "n2")}


@dataclass
class Searched:
    """The results of a search: the number of rows that were asked, and the smallest failing ones."""

    asked: int = 0
    failing: list[PlannedCell] = field(default_factory=list)


def search_rows(
    entry_points: Sequence[EntryPoint], selection: Selection, rows: int, seed: int, ask: Ask, title: str = "search"
) -> Searched:
    """Ask each entry point many rows, and shrink the first one that breaks each rule in each way.

    `ask` runs and judges one cell. A terminal shows the progress, which begins with `title`.
    """
    searched, known = Searched(), set()
    planned = plan_rows(entry_points, selection, rows, seed)
    with show_task(f"{title}: searching", len(planned)) as task:
        for cell in planned:
            answer = ask(cell)
            searched.asked += 1
            task.advance()
            kind = (cell.entry_point.name, cell.case.rule, _name_failure(answer))
            if not _fails(answer) or kind in known:
                continue
            known.add(kind)
            task.note(f"shrinking {cell.case.id}")
            searched.failing.append(shrink(cell, ask))
    return searched


def shrink(planned: PlannedCell, ask: Ask) -> PlannedCell:
    """Return the simplest row that still fails in the same way as the given one."""
    wanted = _name_failure(ask(planned))
    changed = True
    while changed:
        changed = False
        for simpler in _list_simpler(planned):
            answer = ask(simpler)
            if _fails(answer) and _name_failure(answer) == wanted:
                planned, changed = simpler, True
                break
    return planned


def _fails(cell: Cell) -> bool:
    return STATUSES[cell.status].spoils


def _name_failure(cell: Cell) -> tuple[str, str | None]:
    """Return the status of a cell and the rule that it breaks. Rows with the same two fail in the same way."""
    return cell.status, cell.breaks


def _list_simpler(planned: PlannedCell) -> Iterator[PlannedCell]:
    """Yield rows that have a simpler level on one axis."""
    case = planned.case
    assert isinstance(case, RowCase)
    operation = case.rule.partition(".")[0]
    for axis in list_axes(operation):
        now = case.levels[axis.name]
        for word in _list_simpler_words(axis.name, axis.list_words(), now):
            levels: Mapping[str, str] = {**case.levels, axis.name: word}
            if find_reason(operation, list(levels.values())) is None:
                yield replace(planned, case=RowCase(operation, levels))


def _list_simpler_words(axis: str, words: Sequence[str], now: str) -> Sequence[str]:
    order = (*SIMPLER.get(axis, ()), words[0])
    order = tuple(word for word in order if word in words)
    return order[: order.index(now)] if now in order else order
