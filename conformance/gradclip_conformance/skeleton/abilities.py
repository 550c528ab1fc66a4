"""List the abilities that an adapter may declare, with the number of test cases that each ability adds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from gradclip_adapters.contract import FEATURES, EntryPoint

from ..cases.catalogue import list_all_cases
from ..run.plan import Selection, plan_cells
from ..sampler.rows import list_cases

__all__ = ["DTYPES", "NORM_TYPES", "Ability", "count_cells", "list_abilities"]

DTYPES = ("float16", "float32", "float64")
NORM_TYPES = (1.0, 2.0, float("inf"))

#: Some abilities add cells only if another ability is declared, too.
BESIDE = {"flag_kinds": "excludes", "learning_rate": "optimizer", "training": "optimizer", "groups": "optimizer"}

#: The work to do for each ability that the written adapter does not have yet.
WORK = {
    "compiled": "compile the function in `clip`",
    "compiles": 'compile the function in `clip` if `options.pop("compiled", False)`',
    "distributed": "declare it for a subject of its own, which makes each call in several processes (`processes.Team`)",
    "differentiable": "in `call`, pull `Gradient.cotangent` back through `clip`",
    "follows": "in `call`, also make the call `arrays.make_following_call(call)`",
    "functional": "start with `--style functional`",
    "groups": "in `clip`, put the tensors into the groups that `Gradient.group` names",
    "in_place": "start with `--style in-place`",
    "norm_per_group": "in `clip`, put the tensors into the groups that `Gradient.group` names",
    "optimizer": "start with `--style optimizer`",
    "reuses": "in `call`, first make the calls `arrays.make_earlier_calls(call)` on the same tensors",
    "single": 'in `call`, pass `tensors[0]` if `options.pop("as_single", False)`, and read a single result',
    "sparse": "in `make_tensor`, make a row-sparse tensor of `Gradient.rows`",
    "tensor_threshold": "pass `make_scalar` to `convert_options`: a function that makes a tensor of a float",
    "training": "in `clip`, take the steps that the options ask for",
}


@dataclass(frozen=True)
class Ability:
    """An ability, and the cells that a run adds if an adapter declares it."""

    name: str
    meaning: str
    #: The number of cells that a run has with the ability and lacks without it.
    cells: int
    #: The other ability that these cells need. It is empty if they need none.
    beside: str = ""

    @property
    def work(self) -> str:
        """The code that the ability needs. It is empty if the written adapter has it."""
        return WORK.get(self.name, "")


def count_cells(operation: str, features: Sequence[str]) -> int:
    """Return the number of cells that a run has for a subject with these abilities."""
    subject = EntryPoint("new", operation, DTYPES, tuple(features), NORM_TYPES)
    written = sum(cell.missing is None for cell in plan_cells([subject], list_all_cases(), Selection()))
    return written + sum(1 for _ in list_cases(subject))


def list_abilities(operation: str, declared: Sequence[str]) -> list[Ability]:
    """Return all abilities that are not declared. The abilities that need no code and add most cells come first."""
    before: dict[tuple[str, ...], int] = {(): count_cells(operation, declared)}
    found = []
    for name, meaning in FEATURES.items():
        if name in declared:
            continue
        beside = tuple({BESIDE[name]} - set(declared)) if name in BESIDE else ()
        if beside not in before:
            before[beside] = count_cells(operation, [*declared, *beside])
        cells = count_cells(operation, [*declared, *beside, name])
        # A subject that runs in several processes gets no other cells.
        cells -= 0 if name == "distributed" else before[beside]
        found.append(Ability(name, meaning, cells, "".join(beside)))
    return sorted(found, key=lambda ability: (not ability.cells, bool(ability.work), -ability.cells))
