"""Define the skeleton of a clip function, which any style completes. It is right without a fault and wrong with one."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from .arithmetic import LIMITS, QUOTIENTS, SUMS, multiply_by_coefficient
from .facts import OPERATIONS, Array, Work
from .styles import STYLES, Change, Hook, Part

if TYPE_CHECKING:
    from .faults import Fault

__all__ = ["GeneratedFunction", "list_right"]


def _keep(step: str, i: int | None, value: Any, *more: Any) -> Any:
    """Return the value of a step unchanged. This is the hook of a right function."""
    return value


@dataclass
class GeneratedFunction:
    """A clip function that is made of a style, an arithmetic and perhaps a fault."""

    operation: str
    style: str
    #: A key of `SUMS`, or a key of `LIMITS` for a clip by value.
    arithmetic: str
    quotient: str = "quotient"
    in_place: bool = False
    fault: Fault | None = None
    #: The data that a fault keeps from one call to the next.
    memory: dict[str, Any] = field(default_factory=dict)
    #: The number of steps that the fault has changed.
    fired: int = 0

    @property
    def name(self) -> str:
        """The name of a right function."""
        how = "in-place" if self.in_place else "copies"
        parts = [self.style, self.arithmetic, *([] if self.operation == "clip_by_value" else [self.quotient]), how]
        return f"{self.operation}/{'-'.join(parts)}"

    @property
    def function(self) -> Any:
        """The function to call, with the signature of its operation."""
        return {"clip_by_value": self.clip_by_value, "clip_by_norm": self.clip_by_norm}.get(
            self.operation, self.clip_by_global_norm
        )

    def clip_by_value(self, grads: Any, *, max: float, need_clip: Sequence[bool], min: float | None = None) -> Any:
        """Clip by value."""
        return self.run(Work(self.operation, list(grads), list(need_clip), max, min))[0]

    def clip_by_norm(
        self, grads: Any, *, clip_norm: float, need_clip: Sequence[bool], norm_type: float | None = None
    ) -> Any:
        """Clip by norm."""
        return self.run(self.take(grads, need_clip, clip_norm, norm_type))[0]

    def clip_by_global_norm(
        self,
        grads: Any,
        *,
        clip_norm: float,
        need_clip: Sequence[bool],
        norm_type: float | None = None,
        error_if_nonfinite: bool | None = None,
    ) -> Any:
        """Clip by global norm, and return the norm."""
        return self.run(self.take(grads, need_clip, clip_norm, norm_type, error_if_nonfinite))

    def take(
        self, grads: Any, flags: Sequence[bool], threshold: float, p: float | None, error_flag: bool | None = None
    ) -> Work:
        """Return a call of a clip by norm. None stands for an argument that was left out."""
        norm_type = 2.0 if p is None else float(p)
        work = Work(self.operation, list(grads), list(flags), threshold, norm_type=norm_type, error_flag=error_flag)
        work.norm_given = p is not None
        return work

    def run(self, work: Work) -> tuple[list[Any], Any]:
        """Clip, with the fault if its trigger holds."""
        work.in_place = self.in_place
        with np.errstate(all="ignore"):
            return self.clip(work, _keep if self.fault is None else self.fault.watch(self, work))

    def clip(self, work: Work, hook: Hook) -> tuple[list[Any], Any]:
        """Clip, and pass the value of each step to the hook."""
        if work.operation != "clip_by_value" and work.threshold < 0:
            message = f"clip_norm is {work.threshold}: give a number that is not negative"
            raise ValueError(message)
        hook("start", None, None, work)
        counted = [i for i in work.present if hook("counts", i, work.flags[i])]
        clipped = [i for i in work.present if hook("clips", i, work.flags[i])]
        total, changes = self.find_changes(work, counted, clipped, hook)
        if work.error_flag and not math.isfinite(total):
            message = f"the total norm is {total}"
            raise RuntimeError(message)
        results = self.write(work, changes, hook)
        for i, grad in enumerate(work.grads):
            results[i] = self.finish(i, grad, results[i], clipped, hook)
        results = hook("list", None, results)
        return results, hook("returned", None, total, work)

    def find_changes(
        self, work: Work, counted: Sequence[int], clipped: Sequence[int], hook: Hook
    ) -> tuple[float, list[tuple[list[int], Change | None]]]:
        """Return the norm, and the groups of places, each with the function that changes its elements (or None)."""
        if work.operation == "clip_by_value":
            return 0.0, [([i], self.make_limit(work, hook("bounds", i, _find_bounds(work)))) for i in clipped]
        rows = {i: hook("values", i, work.grads[i].reshape(-1), work.grads[i]) for i in counted}
        if work.operation == "clip_by_global_norm":
            total = self.measure(None, list(rows.items()), work, hook)
            return total, [(list(clipped), self.scale(None, total, work, hook))]
        norms = {i: self.measure(i, [(i, rows[i])] if i in rows else [], work, hook) for i in clipped}
        return 0.0, [([i], self.scale(i, norms[i], work, hook)) for i in clipped]

    def make_limit(self, work: Work, bounds: tuple[float, float]) -> Change:
        """Return the function that a clip by value applies to elements."""
        return lambda row: LIMITS[self.arithmetic](row, *bounds)

    def measure(self, i: int | None, parts: list[Part], work: Work, hook: Hook) -> float:
        """Return a norm."""
        norm = STYLES[self.style].measure(parts, work.norm_type, SUMS[self.arithmetic], hook)
        return float(hook("norm", i, norm, parts))

    def scale(self, i: int | None, norm: float, work: Work, hook: Hook) -> Change | None:
        """Return the function that a clip by norm applies to elements. NaN counts as above the threshold."""
        above = hook("above", i, not norm <= work.threshold, norm, work.threshold)
        if not above:
            return None
        # With a fault, the norm may be zero here.
        quotient = QUOTIENTS[self.quotient](work.threshold, norm)
        coefficient = hook("coefficient", i, quotient, np.longdouble(work.threshold), np.longdouble(norm))
        return lambda row: multiply_by_coefficient(row, coefficient)

    def write(self, work: Work, changes: Sequence[tuple[list[int], Change | None]], hook: Hook) -> list[Any]:
        """Return the results in the shapes of the gradients. Gradients without a change are returned as they are."""
        results = list(work.grads)
        for places, change in changes:
            parts = [(i, work.grads[i].reshape(-1)) for i in places]
            if change is None:
                rows = [hook("result", i, row, row) for i, row in parts]
            else:
                rows = STYLES[self.style].write(parts, change, hook)
            for (i, given), row in zip(parts, rows, strict=True):
                if row is not given:
                    results[i] = np.asarray(row).reshape(work.grads[i].shape)
        return results

    def finish(self, i: int, grad: Array | None, result: Any, clipped: Sequence[int], hook: Hook) -> Any:
        """Return the result for one gradient."""
        if grad is None:
            return hook("none", i, None)
        if i not in clipped:
            result = hook("left", i, grad)
        result = hook("form", i, result)
        if self.in_place and isinstance(result, np.ndarray) and result.shape == grad.shape:
            if result is not grad and hook("written", i, True):
                grad[...] = result
            return grad
        hook("spoiled", i, None, grad)
        return result


def _find_bounds(work: Work) -> tuple[float, float]:
    return (-work.threshold if work.low is None else work.low), work.threshold


def list_right() -> Iterator[GeneratedFunction]:
    """Yield right functions of every style, arithmetic and way to return results."""
    for operation in OPERATIONS:
        ways = LIMITS if operation == "clip_by_value" else SUMS
        for number, (style, (way, in_place)) in enumerate(
            (style, (way, in_place)) for style in STYLES for way in ways for in_place in (False, True)
        ):
            yield GeneratedFunction(operation, style, way, tuple(QUOTIENTS)[number % len(QUOTIENTS)], in_place)
