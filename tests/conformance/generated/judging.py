"""Judge a mutant with the suite, in this process, until the first cell fails.

A mutant whose trigger does not hold answers like the right function from which it was made. So the cells in which the
trigger holds come first; of the others, only cells with several calls follow. The suite gives the verdicts.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache

import numpy as np

from gradclip_adapters.arrays import build_tensors, lay_out
from gradclip_adapters.contract import Gradient, Unsupported
from gradclip_adapters.plain import PlainFunction
from gradclip_conformance.cases.catalogue import list_all_cases
from gradclip_conformance.cases.model import Case
from gradclip_conformance.run.in_process import InProcess
from gradclip_conformance.run.plan import PlannedCell, Selection, plan_cells
from gradclip_conformance.run.runner import plan_rows, run_cell
from gradclip_conformance.sampler.rows import RowCase
from gradclip_reports.records import Cell
from gradclip_spec import rules

from .facts import Array, Facts, Work
from .functions import GeneratedFunction
from .mutants import Mutant

__all__ = ["DTYPES", "judge_mutant", "judge_right"]

DTYPES = ("float16", "float32", "float64")

#: The statuses that a mutant may get, and the status of an error in the tests themselves.
RED, FAULTY = frozenset({"fail", "crash", "timeout"}), "error"

RULES = {rule.id: rule for rule in rules.load()}

#: Rules whose cells make several calls.
SEVERAL_CALLS = frozenset({"metamorphic"})


#: A cache of the facts of each case's gradients. They do not depend on whether a function works in place.
FACTS: dict[str, tuple[Facts, ...]] = {}


@dataclass
class _Asked:
    """One cell, with the facts of its gradients."""

    planned: PlannedCell

    @property
    def facts(self) -> tuple[Facts, ...]:
        """Return the facts, which are computed when a trigger first needs them."""
        case = self.planned.case
        if case.id not in FACTS:
            FACTS[case.id] = tuple(_find_facts(case))
        return FACTS[case.id]

    @property
    def makes_several_calls(self) -> bool:
        """Tell whether the cell makes further calls with other facts."""
        return RULES[self.planned.case.rule].theme in SEVERAL_CALLS


def connect(made: GeneratedFunction) -> InProcess:
    """Return a connection to a clip function."""
    return InProcess(PlainFunction(made.function, made.operation, DTYPES, made.in_place, name=made.operation))


#: More rows than a run asks by default, because faults that need two circumstances at once are rare in rows.
MANY_ROWS = 2_000


@cache
def list_cells(operation: str, in_place: bool, features: tuple[str, ...]) -> tuple[_Asked, ...]:
    """Return the cells that judge a clip function of this kind, small ones first."""
    made = GeneratedFunction(
        operation, "loop", "builtin" if operation == "clip_by_value" else "wide", in_place=in_place
    )
    (subject,) = connect(made).description.subjects
    subjects = [replace(subject, features=features)]
    planned = [*plan_cells(subjects, list_all_cases(), Selection()), *plan_rows(subjects, Selection(), MANY_ROWS)]
    judging = [
        cell
        for cell in planned
        if cell.missing is None and "bfloat16" not in cell.case.dtype and RULES[cell.case.rule].level != "unspecified"
    ]
    return tuple(_Asked(cell) for cell in sorted(judging, key=_estimate_size))


def _estimate_size(cell: PlannedCell) -> int:
    """Return the approximate number of elements, plus a constant for each gradient."""
    if isinstance(cell.case, RowCase):
        # The gradients of a row are made when they are needed, so read the sizes from its levels.
        size, number = (int(cell.case.levels[axis][1:]) for axis in ("size", "number"))
        return size + 20 * number
    return sum(20 + math.prod(each.array.shape) for each in cell.case.gradients if each.array is not None)


def _find_facts(case: Case) -> Iterator[Facts]:
    """Yield the facts of each gradient of a case's call, without its elements."""
    options, gradients = case.options, case.gradients
    try:
        grads = build_tensors(gradients, _build)
    except Unsupported:
        return
    work = Work(
        case.operation,
        list(grads),
        [gradient.need_clip for gradient in gradients],
        options["max"] if case.operation == "clip_by_value" else options["clip_norm"],
        options.get("min"),
        case.norm_type,
        options.get("error_if_nonfinite"),
        norm_given="norm_type" in options,
    )
    found = [facts for facts in work.list_facts() if facts is not None]
    _ = work.widths, work.excluded, work.missing, work.total, work.longest
    with np.errstate(all="ignore"):
        for facts in found:
            facts.keep()
    # For the list itself, triggers need only to know which gradients exist.
    work.grads = [None if grad is None else True for grad in work.grads]
    yield from found


def _build(gradient: Gradient) -> Array:
    assert gradient.array is not None
    return lay_out(gradient.array.numpy(), gradient.layout)


def judge_mutant(mutant: Mutant) -> Cell | None:
    """Return a mutant's first failing cell, or a cell with an error of the tests. Return None if it survives."""
    made = mutant.make()
    connection = connect(made)
    (subject,) = connection.description.subjects
    cells = list_cells(mutant.operation, mutant.in_place, tuple(sorted(subject.features)))
    firing = (asked for asked in cells if _may_fire(mutant, asked.facts))
    others = (asked for asked in cells if asked.makes_several_calls and not _may_fire(mutant, asked.facts))
    for asked in itertools.chain(firing, others):
        cell = run_cell(connection, asked.planned, 1.0)
        if cell.status in RED or cell.status == FAULTY:
            return cell
    return None


def _may_fire(mutant: Mutant, facts: Sequence[Facts]) -> bool:
    """Tell whether the trigger may hold in a call, judging by its gradients."""
    levels = [level for level in mutant.fault.levels if level.axis != "in place"]
    wanted = mutant.fault.operator.side == "included"
    return any(f.flag == wanted and all(level.holds(f) for level in levels) for f in facts)


def judge_right(made: GeneratedFunction, most: int | None = None, part: int = 0, parts: int = 1) -> list[Cell]:
    """Return the cells that blame a right function.

    It is asked the first `most` cells, or all of them. With `parts`, it is asked only one part of the rows.
    """
    connection = connect(made)
    (subject,) = connection.description.subjects
    cells = list_cells(made.operation, made.in_place, tuple(sorted(subject.features)))[:most]
    rows = [asked for asked in cells if isinstance(asked.planned.case, RowCase)]
    left_out = {id(asked) for number, asked in enumerate(rows) if number % parts != part % parts}
    judged = [run_cell(connection, asked.planned, 1.0) for asked in cells if id(asked) not in left_out]
    return [cell for cell in judged if cell.status in RED or cell.status == FAULTY]
