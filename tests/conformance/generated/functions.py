"""Define a clip function in steps. It is right without a fault, and wrong with one.

A fault is an *operator*, which changes the value of one step, and a *trigger*, which says for which gradients.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from mutants.steps import NormFunction

from .drafts import Draft
from .facts import OPERATIONS, Array, Work
from .triggers import Level

#: A function that returns the changed value of a step. It takes the function's memory, the value, and details. The
#: memory persists between calls.
Edit = Callable[..., Any]
#: A function that takes the name of a step, the place of the gradient (None for the whole call), the value of the step,
#: and details. It returns the value with which the clip continues.
Hook = Callable[..., Any]
#: A function that clips elements.
Change = Callable[[Array], Array]

#: The right steps of a norm.
NORM = NormFunction()


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


@dataclass(frozen=True)
class Fault:
    """An operator that acts if all levels of a trigger hold."""

    operator: Operator
    trigger: tuple[Level, ...]

    @property
    def levels(self) -> tuple[Level, ...]:
        return self.trigger if self.operator.level is None else (self.operator.level, *self.trigger)

    def list_places(self, work: Work) -> set[int]:
        """Return the places of the gradients for which the trigger holds."""
        wanted = self.operator.side == "included"
        return {
            facts.index
            for facts in work.list_facts()
            if facts is not None and facts.flag == wanted and all(level.holds(facts) for level in self.levels)
        }

    def make_draft(self, draft: Draft) -> Draft:
        """Return the draft of an input that should satisfy the trigger."""
        for level in self.levels:
            draft = level.ask(draft)
        draft.is_excluded = self.operator.side == "excluded"
        return draft


@dataclass
class GeneratedFunction:
    """A clip function with at most one fault."""

    operation: str
    in_place: bool = False
    fault: Fault | None = None
    #: The data that a fault keeps from one call to the next.
    memory: dict[str, Any] = field(default_factory=dict)
    #: The number of steps that the fault has changed.
    fired: int = 0

    @property
    def function(self) -> Any:
        """The function to call, with the signature of its operation."""
        return getattr(self, self.operation)

    def clip_by_value(self, grads: Any, *, max: float, need_clip: Sequence[bool], min: float | None = None) -> Any:
        return self.run(Work(self.operation, list(grads), list(need_clip), max, min))[0]

    def clip_by_norm(
        self, grads: Any, *, clip_norm: float, need_clip: Sequence[bool], norm_type: float | None = None
    ) -> Any:
        return self.clip_by_global_norm(grads, clip_norm=clip_norm, need_clip=need_clip, norm_type=norm_type)[0]

    def clip_by_global_norm(
        self,
        grads: Any,
        *,
        clip_norm: float,
        need_clip: Sequence[bool],
        norm_type: float | None = None,
        error_if_nonfinite: bool | None = None,
    ) -> Any:
        """Clip, and return the norm. None stands for an argument that was left out."""
        work = Work(self.operation, list(grads), list(need_clip), clip_norm, error_flag=error_if_nonfinite)
        work.norm_type, work.norm_given = 2.0 if norm_type is None else float(norm_type), norm_type is not None
        return self.run(work)

    def run(self, work: Work) -> tuple[list[Any], Any]:
        """Clip, with the fault if its trigger holds."""
        work.in_place = self.in_place
        with np.errstate(all="ignore"):
            return self.clip(work, self.watch(work))

    def watch(self, work: Work) -> Hook:
        """Return the hook of one call, which changes a step where the fault says so."""
        fault = self.fault
        if fault is None:
            return lambda step, i, value, *more: value
        # Find the places before anything is written.
        places = fault.list_places(work)

        def hook(step: str, i: int | None, value: Any, *more: Any) -> Any:
            changed = value
            if step == fault.operator.step and (places if i is None or step == "none" else i in places):
                self.fired += 1
                changed = fault.operator.edit(self.memory, value, *more)
            if step in ("norm", "coefficient"):
                self.memory[step] = value
            return changed

        return hook

    def clip(self, work: Work, hook: Hook) -> tuple[list[Any], Any]:
        if work.about.is_by_norm and work.threshold < 0:
            message = f"clip_norm is {work.threshold}: give a number that is not negative"
            raise ValueError(message)
        hook("start", None, None, work)
        counted = [i for i in work.present if hook("counts", i, work.flags[i])]
        clipped = [i for i in work.present if hook("clips", i, work.flags[i])]
        total, changes = self.find_changes(work, counted, clipped, hook)
        if work.error_flag and not math.isfinite(total):
            message = f"the total norm is {total}"
            raise RuntimeError(message)
        results = list(work.grads)
        for i, change in changes.items():
            given = work.grads[i].reshape(-1)
            row = hook("result", i, given if change is None else change(given), given)
            if row is not given:
                results[i] = np.asarray(row).reshape(work.grads[i].shape)
        for i in set(work.present).difference(changes):
            results[i] = hook("left", i, results[i])
        # A tensor may occur twice, so nothing is written before all results are known.
        results = [self.finish(i, grad, results[i], hook) for i, grad in enumerate(work.grads)]
        return hook("list", None, results), hook("returned", None, total, work)

    def find_changes(
        self, work: Work, counted: Sequence[int], clipped: Sequence[int], hook: Hook
    ) -> tuple[float, dict[int, Change | None]]:
        """Return the norm, and for each place the function that changes the elements, or None."""
        if not work.about.is_by_norm:
            low = -work.threshold if work.low is None else work.low
            return 0.0, {i: self.make_limit(*hook("bounds", i, (low, work.threshold))) for i in clipped}
        rows = {i: hook("values", i, work.grads[i].reshape(-1), work.grads[i]) for i in counted}
        if work.about.is_global:
            total = self.measure(None, list(rows.values()), work, hook)
            return total, dict.fromkeys(clipped, self.scale(None, total, work, hook))
        norms = {i: self.measure(i, [rows[i]] if i in rows else [], work, hook) for i in clipped}
        return 0.0, {i: self.scale(i, norms[i], work, hook) for i in clipped}

    def make_limit(self, low: float, high: float) -> Change:
        return lambda row: np.asarray(np.clip(row, low, high), row.dtype)

    def measure(self, i: int | None, rows: list[Array], work: Work, hook: Hook) -> float:
        return float(hook("norm", i, NORM.compute_norm(rows, work.norm_type), rows))

    def scale(self, i: int | None, norm: float, work: Work, hook: Hook) -> Change | None:
        """Return the function that a clip by norm applies to elements. NaN counts as above the threshold."""
        if not hook("above", i, not norm <= work.threshold, norm, work.threshold):
            return None
        # In the widest format, the quotient neither overflows nor underflows. With a fault, the norm may be zero here.
        threshold, divisor = np.longdouble(work.threshold), np.longdouble(norm)
        coefficient = hook("coefficient", i, threshold / divisor, threshold, divisor)
        return lambda row: np.asarray(row.astype(np.longdouble) * coefficient).astype(row.dtype)

    def finish(self, i: int, grad: Array | None, result: Any, hook: Hook) -> Any:
        """Return the result for one gradient, in its form."""
        if grad is None:
            return hook("none", i, None)
        result = hook("form", i, result)
        if self.in_place and isinstance(result, np.ndarray) and result.shape == grad.shape:
            if result is not grad and hook("written", i, True):
                grad[...] = result
            return grad
        hook("spoiled", i, None, grad)
        return result
