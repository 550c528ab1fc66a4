"""Plan the cells of a run: for each entry point, every case of its operation.

A case that an entry point cannot take is planned, too. Its cell says what is missing, so that no case is left out
silently. Only the cases of several processes are left out, for entry points that run in one. An entry point that runs
in several gets no other cases: each call must say in how many processes it is made.
"""

from __future__ import annotations

import heapq
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain, groupby
from operator import attrgetter, itemgetter
from typing import Literal

from gradclip_adapters.contract import FEATURES, EntryPoint
from gradclip_adapters.operations import OPERATIONS

from ..cases.catalogue import list_all_cases
from ..cases.model import Case
from ..cases.patterns import matches_any
from ..cases.shards import find_case_on, make_cases_on
from ..oracle.formula import Formula
from ..sampler.rows import find_row

#: The features of calls that take long: they repeat the call, compile it, or make it in several processes.
SLOW = frozenset({"threads", "compiles", "distributed"})


@dataclass(frozen=True)
class Selection:
    """The cells that a run is restricted to. An empty field selects everything."""

    operations: tuple[str, ...] = ()
    rules: tuple[str, ...] = ()
    dtypes: tuple[str, ...] = ()
    cases: tuple[str, ...] = ()

    def holds(self, case: Case) -> bool:
        """Return whether a case is selected. `rules` holds patterns of the ids of rules and cases."""
        return (
            (not self.operations or case.operation in self.operations)
            and (not self.dtypes or case.dtype in self.dtypes)
            and (not self.rules or matches_any(self.rules, case.rule, case.id))
            and (not self.cases or case.id in self.cases)
        )


@dataclass(frozen=True)
class Ability:
    """A dtype, a feature or a norm that an entry point does not declare. The name of a norm is its order."""

    what: Literal["dtype", "feature", "norm"]
    name: str


@dataclass(frozen=True, slots=True)
class PlannedCell:
    """One case for one entry point.

    If the entry point cannot take the case, `missing` says why, and `lacking` holds the abilities that it lacks.
    """

    entry_point: EntryPoint
    case: Case
    missing: str | None
    lacking: tuple[Ability, ...] = ()

    @property
    def pair(self) -> tuple[str, str]:
        """The entry point and the case, which together name one cell of a run."""
        return self.entry_point.name, self.case.id

    def make(self) -> PlannedCell:
        """Return this cell, with a case whose gradients are made."""
        made = self.case.make()
        return self if made is self.case else replace(self, case=made)


def add_formula(entry_points: Sequence[EntryPoint], formula: Formula | None) -> list[EntryPoint]:
    """Return the entry points. Those that clip by a norm declare the given formula, unless it is None."""
    return [
        entry_point
        if formula is None or not OPERATIONS[entry_point.operation].is_by_norm
        else replace(entry_point, formula=formula.to_mapping())
        for entry_point in entry_points
    ]


def plan_cells(entry_points: Sequence[EntryPoint], cases: Iterable[Case], selection: Selection) -> list[PlannedCell]:
    """Return the cells of a run: case by case, so that each is predicted once for all its entry points.

    An entry point with a mesh of its own gets the cases of this mesh.
    """
    general = [case for case in cases if selection.holds(case)]
    planned = []
    for entry_point in entry_points:
        if entry_point.mesh is None:
            chosen = [
                case
                for case in general
                if case.operation == entry_point.operation
                and ("mesh" in case.options) == ("distributed" in entry_point.features)
            ]
        else:
            chosen = [case for case in make_cases_on(entry_point.operation, entry_point.mesh) if selection.holds(case)]
        planned += [
            PlannedCell(entry_point, add_both_bounds(case, entry_point), *_find_missing(entry_point, case))
            for case in chosen
        ]
    places = {case.id: place for place, case in enumerate(general)}
    planned.sort(key=lambda cell: places.get(cell.case.id, len(places)))
    return spread(*([cell for cell in planned if bool(SLOW & cell.case.needs) == is_slow] for is_slow in (True, False)))


def spread(*parts: Collection[PlannedCell]) -> list[PlannedCell]:
    """Return the cells of all parts, each part at even distances. The cells of one case stay together.

    Some cells take the adapter long, and others take the suite long. If they alternate, neither waits for the other.
    """
    filled = [part for part in parts if part]
    if len(filled) < 2:
        return [*chain(*filled)]
    # There may be a hundred thousand rows, so no list of groups is made.
    return [cell for _, cell in heapq.merge(*map(_place, filled), key=itemgetter(0))]


def _place(cells: Collection[PlannedCell]) -> Iterator[tuple[float, PlannedCell]]:
    """Yield each cell with the place of its case, between 0 and 2. The places of a part are at even distances."""
    get_case_id = attrgetter("case.id")
    number = sum(1 for _ in groupby(cells, key=get_case_id))
    for place, (_, group) in enumerate(groupby(cells, key=get_case_id)):
        yield from (((2 * place + 1) / number, cell) for cell in group)


def plan_case(entry_point: EntryPoint, case: Case) -> PlannedCell:
    """Return the cell of one case for an entry point."""
    return next(iter(plan_cells([entry_point], [case], Selection(cases=(case.id,)))))


def find_case(name: str) -> Case | None:
    """Return the case with an id: a written one, one on a mesh, or a row. Return None if there is none."""
    return find_row(name) or find_case_on(name) or next((case for case in list_all_cases() if case.id == name), None)


#: The rule about leaving out `min`. It does not apply to an entry point that requires `min`.
MIN_LEFT_OUT = "value.min-defaults-to-minus-max"


def add_both_bounds(case: Case, entry_point: EntryPoint) -> Case:
    """Return the case with an explicit `min` of `-max`, if the entry point requires `min`."""
    if "requires_min" not in entry_point.features or "max" not in case.options or "min" in case.options:
        return case
    return replace(case.make(), options={**case.options, "min": -case.options["max"]})


def _find_missing(entry_point: EntryPoint, case: Case) -> tuple[str | None, tuple[Ability, ...]]:
    dtypes = {gradient.array.dtype for gradient in case.gradients if gradient.array is not None} or {case.dtype}
    if lacking := sorted(dtypes - set(entry_point.dtypes)):
        text = f"{entry_point.name} declares no dtype {', '.join(lacking)}."
        return text, tuple(Ability("dtype", name) for name in lacking)
    if lacking := sorted(case.needs - set(entry_point.features)):
        told = "; ".join(f"{name} ({FEATURES[name]})" for name in lacking)
        return f"{entry_point.name} does not declare: {told}.", tuple(Ability("feature", name) for name in lacking)
    if case.rule == MIN_LEFT_OUT and "requires_min" in entry_point.features:
        return f"{entry_point.name} requires `min`.", (Ability("feature", "requires_min"),)
    # An order of 0 or below is passed to every entry point with `norm_type`, and the answer is recorded.
    if "norm_type" in case.options and case.norm_type > 0 and case.norm_type not in entry_point.norm_types:
        text = f"{entry_point.name} declares no norm of the order {case.norm_type:g}."
        return text, (Ability("norm", f"{case.norm_type:g}"),)
    return None, ()
