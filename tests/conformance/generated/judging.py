"""Judge mutants with the suite, in this process, each until its first cell fails, and count those that are caught.

A mutant whose trigger does not hold answers like the right function from which it was made. So the cells in which the
trigger holds come first; of the others, only cells with several calls follow. The suite gives the verdicts.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np

from gradclip_adapters.arrays import build_tensors, make_array
from gradclip_adapters.contract import Unsupported
from gradclip_adapters.operations import OPERATIONS
from gradclip_adapters.plain import PlainFunction
from gradclip_conformance.cases.catalogue import list_all_cases
from gradclip_conformance.cases.model import Case
from gradclip_conformance.run.in_process import InProcess
from gradclip_conformance.run.plan import PlannedCell, Selection, plan_cells
from gradclip_conformance.run.runner import plan_rows, run_cell
from gradclip_conformance.sampler.rows import RowCase
from gradclip_reports.records import Cell
from gradclip_spec import rules

from .drafts import DTYPES
from .facts import Facts, Work
from .functions import GeneratedFunction
from .mutants import Mutant, draw_mutants, find_witness

#: The number of mutants in a batch, and the number of batches that `nox -s mutation -- --all` runs.
SIZE, BATCHES = 50, 120
#: The share of the proven mutants that must be caught.
LEAST_CAUGHT = 0.98

#: The possible outcomes for a drawn mutant, with their descriptions.
STATES = {
    "caught": "proven wrong and caught",
    "survives": "proven wrong and not caught",
    "equivalent": "not proven wrong: right on every drawn input",
    "impossible": "refused: no input was found that satisfies its trigger",
}

#: The statuses that a mutant may get, and the status of an error in the tests themselves.
RED, FAULTY = frozenset({"fail", "crash", "timeout"}), "error"

RULES = {rule.id: rule for rule in rules.load()}

#: A cache of the facts of each case's gradients. They do not depend on whether a function works in place.
FACTS: dict[str, tuple[Facts, ...]] = {}


def connect(made: GeneratedFunction) -> InProcess:
    return InProcess(PlainFunction(made.function, made.operation, DTYPES, made.in_place, name=made.operation))


#: More rows than a run asks by default, because faults that need two circumstances at once are rare in rows.
MANY_ROWS = 2_000


@cache
def list_cells(operation: str, in_place: bool, features: tuple[str, ...]) -> tuple[PlannedCell, ...]:
    """Return the cells that judge a clip function of this kind, small ones first."""
    (entry_point,) = connect(GeneratedFunction(operation, in_place)).description.subjects
    entry_points = [replace(entry_point, features=features)]
    rows = plan_rows(entry_points, Selection(), MANY_ROWS)
    planned = [*plan_cells(entry_points, list_all_cases(), Selection()), *rows]
    judging = [
        cell
        for cell in planned
        if cell.missing is None and "bfloat16" not in cell.case.dtype and RULES[cell.case.rule].level != "unspecified"
    ]
    return tuple(sorted(judging, key=_estimate_size))


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
        grads = build_tensors(gradients, make_array)
    except Unsupported:
        return
    work = Work(
        case.operation,
        list(grads),
        [gradient.need_clip for gradient in gradients],
        options[OPERATIONS[case.operation].threshold],
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


def judge_mutant(mutant: Mutant) -> Cell | None:
    """Return a mutant's first failing cell, or a cell with an error of the tests. Return None if it survives."""
    made = mutant.make()
    connection = connect(made)
    (entry_point,) = connection.description.subjects
    cells = list_cells(mutant.operation, mutant.in_place, tuple(sorted(entry_point.features)))
    firing = (cell for cell in cells if _may_fire(mutant, cell.case))
    # The cells of a metamorphic rule make further calls, with other facts.
    several = (cell for cell in cells if RULES[cell.case.rule].theme == "metamorphic")
    others = (cell for cell in several if not _may_fire(mutant, cell.case))
    for planned in itertools.chain(firing, others):
        cell = run_cell(connection, planned, 1.0)
        if cell.status in RED or cell.status == FAULTY:
            return cell
    return None


def _may_fire(mutant: Mutant, case: Case) -> bool:
    """Tell whether the trigger may hold in a call, judging by its gradients."""
    if case.id not in FACTS:
        FACTS[case.id] = tuple(_find_facts(case))
    levels = [level for level in mutant.fault.levels if level.axis != "in place"]
    wanted = mutant.fault.operator.side == "included"
    return any(f.flag == wanted and all(level.holds(f) for level in levels) for f in FACTS[case.id])


def judge_batch(seed: int, size: int = SIZE) -> dict[str, Any]:
    """Draw mutants by a seed, prove them wrong, and return how many the suite catches, and which it misses."""
    counts: Counter[str] = Counter()
    survivors: dict[str, str] = {}
    errors: dict[str, str] = {}
    for mutant in itertools.islice(draw_mutants(seed), size):
        witness, fired = find_witness(mutant)
        if witness is None:
            counts["equivalent" if fired else "impossible"] += 1
            continue
        cell = judge_mutant(mutant)
        counts["caught" if cell is not None else "survives"] += 1
        if cell is None:
            survivors[mutant.name] = witness
        elif cell.status == FAULTY:
            errors[mutant.name] = cell.detail
    return {"counts": dict(counts), "survivors": survivors, "errors": errors}


def score_batches(batches: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    counts, survivors, number = Counter(dict.fromkeys(STATES, 0)), {}, 0
    for batch in batches:
        number += 1
        counts.update(batch["counts"])
        survivors |= batch["survivors"]
    proven = counts["caught"] + counts["survives"]
    share = counts["caught"] / proven if proven else 1.0
    return {
        "batches": number,
        **counts,
        "proven": proven,
        "share": round(share, 4),
        "survivors": dict(sorted(survivors.items())),
    }


def list_faults(result: Mapping[str, Any]) -> list[str]:
    if result["share"] >= LEAST_CAUGHT:
        return []
    return [f"only {result['caught']} of {result['proven']} generated mutants were caught"]


def write_lines(result: Mapping[str, Any]) -> Sequence[str]:
    """Return the lines of the page about generated mutants."""
    lines = [
        "## Generated mutants",
        "",
        "Right functions, each with one fault that shows under up to three circumstances. A name has the operation,",
        "the fault and the circumstances. `tests/conformance/generated/` makes them.",
        "",
        *(f"- {words}: {result[state]}" for state, words in STATES.items()),
        f"- Share of caught mutants: {100 * result['share']:.1f} %",
        "",
    ]
    if result["survivors"]:
        lines += ["Not caught, each with an input that would catch it:", ""]
        lines += [f"- `{name}`: {words}" for name, words in result["survivors"].items()]
        lines.append("")
    return lines
