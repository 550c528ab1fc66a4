"""Define a fault: an operator that changes one step of a right function, and the trigger that says when."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from .drafts import Draft
from .facts import OPERATIONS, Work
from .functions import GeneratedFunction
from .styles import Hook
from .triggers import Level

__all__ = ["Edit", "Fault", "Operator"]

#: A function that returns the changed value of a step. It takes the function's memory, the value, and details from the
#: style. The memory persists between calls.
Edit = Callable[..., Any]


@dataclass(frozen=True)
class Operator:
    """One way to change one step."""

    name: str
    step: str
    edit: Edit
    side: str = "included"
    operations: tuple[str, ...] = OPERATIONS
    #: A level without which the change does nothing. It counts as a level of the trigger.
    level: Level | None = None
    #: True if the operator needs a function that works in place, False if it needs another one, None if it serves both.
    in_place: bool | None = None
    styles: tuple[str, ...] = ()


@dataclass(frozen=True)
class Fault:
    """An operator that acts if all levels of a trigger hold."""

    operator: Operator
    trigger: tuple[Level, ...]

    @property
    def levels(self) -> tuple[Level, ...]:
        """The levels of the trigger, including the operator's own level."""
        return self.trigger if self.operator.level is None else (self.operator.level, *self.trigger)

    def list_places(self, work: Work) -> set[int]:
        """Return the places of the gradients for which the trigger holds."""
        wanted = self.operator.side == "included"
        return {
            facts.index
            for facts in work.list_facts()
            if facts is not None and facts.flag == wanted and all(level.holds(facts) for level in self.levels)
        }

    def watch(self, made: GeneratedFunction, work: Work) -> Hook:
        """Return the hook of one call: a function that may change the value of each step."""
        # Find the places before anything is written.
        places = self.list_places(work)

        def hook(step: str, i: int | None, value: Any, *more: Any) -> Any:
            if step != self.operator.step or not (places if i is None or step == "none" else i in places):
                return self._remember(made, step, value)
            made.fired += 1
            changed = self.operator.edit(made.memory, value, *more)
            self._remember(made, step, value)
            return changed

        return hook

    def _remember(self, made: GeneratedFunction, step: str, value: Any) -> Any:
        if step in ("norm", "coefficient"):
            made.memory[step] = value
        return value

    def make_draft(self, draft: Draft) -> Draft:
        """Return the draft of an input that should satisfy the trigger."""
        for level in self.levels:
            draft = level.ask(draft)
        draft.is_excluded = self.operator.side == "excluded"
        return draft
