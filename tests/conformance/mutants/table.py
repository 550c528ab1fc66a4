"""Hold the table of mutants. A mutant is a right function of `steps.py` with one wrong step.

Each judged rule needs one mutant, and each cause that people meet needs one that shows it. Add another one if it needs
an ability, a dtype or circumstances that no other has. The package `generated` makes all others.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from gradclip_adapters.contract import Adapter
from gradclip_adapters.operations import PREFIXES, Operation
from gradclip_adapters.plain import PlainFunction
from gradclip_conformance.cases.patterns import matches
from gradclip_reports.statuses import UNEXPLAINED
from gradclip_spec import rules

from .abilities import WithAbilities
from .steps import EVERY, ClipFunction

RULES = {rule.id: rule for rule in rules.load()}
EVERY_DTYPE = ("float16", "float32", "float64")


@dataclass(frozen=True)
class Wrong:
    """A mutant of one operation, and one rule that must catch it."""

    #: What the mutant does wrong.
    does: str
    function: ClipFunction
    operation: str
    rule: str
    #: The causes that a finding may name. The first one is the defect; the others describe the same answers.
    causes: tuple[str, ...]
    dtypes: tuple[str, ...]
    in_place: bool | None
    #: Makes the adapter. Some adapters have abilities that the function's signature does not show.
    adapter: type[Adapter]
    #: Whether the error is too large for the dtype's arithmetic, although the rule is about accuracy.
    inexcusable: bool

    @property
    def name(self) -> str:
        return f"{self.rule}: {self.does}"

    @property
    def caught_as(self) -> str:
        """Return the status that a cell of the rule must have: poor accuracy alone is not a failure."""
        return "quality" if RULES[self.rule].level == "quality" and not self.inexcusable else "fail"


WRONG: list[Wrong] = []


def add_mutant(
    does: str,
    *patterns: str,
    causes: Sequence[str] = (UNEXPLAINED,),
    dtypes: Sequence[str] = ("float32",),
    in_place: bool | None = None,
    adapter: type[Adapter] = PlainFunction,
    inexcusable: bool = False,
    **steps: Callable[..., Any],
) -> None:
    """Add a mutant to the table: what it does wrong, patterns of the rules that must catch it, and its wrong steps.

    A pattern such as `*.zero-gradient` stands for the rules of all operations that have the step. A step takes the
    mutant and the arguments of the right step, which is `self.right.STEP`. If a defect belongs to different steps in
    different operations, each operation takes those steps that it has.
    """
    for pattern in patterns:
        found = [rule for rule in RULES.values() if matches(pattern, rule.id) and rule.level != "unspecified"]
        made = [(rule.id, function) for rule in found if (function := make_mutant(rule.id, adapter, steps))]
        assert made, f"{does}: no operation has a rule {pattern!r} and one of the steps {', '.join(steps)}"
        for rule_id, function in made:
            about = (function.operation, rule_id, tuple(causes), tuple(dtypes), in_place, adapter, inexcusable)
            WRONG.append(Wrong(does, function, *about))


def list_rules(name: str, has: Callable[[Operation], bool]) -> list[str]:
    """Return the ids of the rules of a name, for the operations that have a property."""
    return [f"{prefix}.{name}" for prefix, operation in PREFIXES.items() if has(operation)]


def make_mutant(rule: str, adapter: type[Adapter], steps: dict[str, Callable[..., Any]]) -> ClipFunction | None:
    """Return the right function of a rule's operation with the wrong steps, or None if it has none of them."""
    short = rule.partition(".")[0]
    right = next((base for base in EVERY if base.short == short), None)
    assert right is not None, f"steps.py has no right function of the operation {short!r}"
    if issubclass(adapter, WithAbilities):
        right = adapter.complete(right)
    own = {name: step for name, step in steps.items() if hasattr(right, name)}
    function: ClipFunction | None = type("Mutant", (right,), own)() if own else None
    return function


def refuse(said: str, kind: type[Exception] = ValueError) -> Any:
    raise kind(said)
