"""Define right functions in steps. A mutant replaces one step.

All are called like plain functions: as `fn(grads, *, clip_norm, need_clip, ...)` or `fn(grads, *, max, min,
need_clip)`. The right functions compute the norm in float64 from values scaled by a power of two. So no square leaves
the range, and an exact norm stays exact.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import numpy as np

Array = np.ndarray[Any, Any]
Gradients = list[Any]


def scale_by_quotient(values: Array, numerator: float, denominator: float) -> Array:
    """Return `values * numerator / denominator` in float64, even if the quotient alone leaves the range."""
    above, above_exponent = math.frexp(numerator)
    below, below_exponent = math.frexp(denominator)
    wide = values.astype(np.float64) * (above / below / 2)
    return np.ldexp(wide, above_exponent - below_exponent + 1)


def multiply_by_power_of_two(value: float, exponent: int) -> float:
    """Return `value * 2**exponent`, or infinity if that leaves the range. `math.ldexp` would raise."""
    with np.errstate(over="ignore"):
        return float(np.ldexp(value, exponent))


class ClipFunction:
    """The steps that all operations share: select the gradients to clip, and return the results."""

    #: The operation's name in rule ids, and its name in the contract; empty in classes that cover several operations.
    short: ClassVar[str] = ""
    operation: ClassVar[str] = ""

    @property
    def right(self) -> Any:
        """Return the right steps. Only the class of a mutant has it: the class from which that one is derived."""
        return super(type(self), self)

    def take(self, grads: Any) -> Gradients:
        """Return the argument as a list. It may be an iterator, which can be read once, or a single array."""
        return [grads] if isinstance(grads, np.ndarray) else list(grads)

    def select_included(self, grads: Sequence[Any], need_clip: Sequence[bool]) -> list[int]:
        return [i for i, grad in enumerate(grads) if grad is not None and need_clip[i]]

    def hand_back(self, grad: Array, result: Any) -> Any:
        """Return the result for one included gradient; here, the right `result`."""
        return result

    def answer(self, grads: Gradients, need_clip: Sequence[bool], results: Gradients) -> Any:
        """Return the answer for the whole list; here, the right `results`."""
        return results

    def clip_all(self, grads: Gradients, need_clip: Sequence[bool], clip_one: Callable[[int], Array]) -> Any:
        results = list(grads)
        for i in self.select_included(grads, need_clip):
            results[i] = self.hand_back(grads[i], clip_one(i))
        return self.answer(grads, need_clip, results)


class ByValue(ClipFunction):
    short = "value"
    operation = "clip_by_value"

    def __call__(self, grads: Gradients, *, max: float, need_clip: Sequence[bool], min: float | None = None) -> Any:
        grads = self.take(grads)
        low, high = self.fill_bounds(min, max)
        return self.clip_all(grads, need_clip, lambda i: self.limit(grads[i], low, high))

    def fill_bounds(self, low: float | None, high: float) -> tuple[float, float]:
        return (-high if low is None else low), high

    def limit(self, grad: Array, low: float, high: float) -> Array:
        """Clip one gradient and keep its dtype, also with bounds that are NumPy scalars of a wider dtype."""
        return np.asarray(np.clip(grad, low, high), dtype=grad.dtype)


class NormFunction(ClipFunction):
    """Clip by norm, either by each tensor's own norm or by the global norm."""

    def __call__(
        self,
        grads: Gradients,
        *,
        clip_norm: float,
        need_clip: Sequence[bool],
        norm_type: float = 2.0,
        error_if_nonfinite: bool = False,
    ) -> Any:
        grads = self.take(grads)
        self.check(clip_norm)
        counted = self.select_counted(grads, need_clip)
        norms = self.compute_norms(grads, counted, norm_type)
        if error_if_nonfinite:
            self.refuse_nonfinite(grads, norms)
        results = self.clip_all(grads, need_clip, lambda i: self.clip(grads[i], clip_norm, norms[i]))
        return self.finish(results, norms[0] if norms else 0.0, clip_norm)

    def check(self, clip_norm: float) -> None:
        if clip_norm < 0:
            message = f"clip_norm is {clip_norm}: give a number that is not negative"
            raise ValueError(message)

    def select_counted(self, grads: Sequence[Any], need_clip: Sequence[bool]) -> list[int]:
        return self.select_included(grads, need_clip)

    def compute_norms(self, grads: Gradients, counted: Sequence[int], p: float) -> list[float]:
        """Return, for each gradient, the norm by which it is clipped."""
        raise NotImplementedError

    def compute_norm(self, tensors: Sequence[Array], p: float) -> float:
        values = np.abs(self.join(tensors))
        largest = float(np.max(values, initial=0.0))
        if p == math.inf or largest == 0 or not math.isfinite(largest):
            return largest
        exponent = math.frexp(largest)[1]
        return multiply_by_power_of_two(self.take_root(self.sum_powers(np.ldexp(values, -exponent), p), p), exponent)

    def join(self, tensors: Sequence[Array]) -> Array:
        """Return all elements of some tensors as one float64 vector."""
        return np.concatenate([np.zeros(0), *(tensor.astype(np.float64).ravel() for tensor in tensors)])

    def sum_powers(self, values: Array, p: float) -> float:
        return float(np.sum(values * values if p == 2 else values**p))

    def take_root(self, power_sum: float, p: float) -> float:
        return float(math.sqrt(power_sum) if p == 2 else power_sum ** (1 / p))

    def refuse_nonfinite(self, grads: Gradients, norms: Sequence[float]) -> None:
        if not all(math.isfinite(norm) for norm in norms):
            message = f"the total norm is not finite: {norms[0]}"
            raise RuntimeError(message)

    def clip(self, grad: Array, clip_norm: float, norm: float) -> Array:
        return self.scale(grad, clip_norm, norm) if self.is_above(norm, clip_norm) else grad

    def is_above(self, norm: float, clip_norm: float) -> bool:
        """Tell whether the norm is above the threshold. NaN counts as above."""
        return not norm <= clip_norm

    def scale(self, grad: Array, clip_norm: float, norm: float) -> Array:
        return np.asarray(self.scale_in_float64(grad, clip_norm, norm)).astype(grad.dtype)

    def scale_in_float64(self, grad: Array, clip_norm: float, norm: float) -> Array:
        if not math.isfinite(norm):
            return grad.astype(np.float64) * (clip_norm / norm)
        return scale_by_quotient(grad, clip_norm, norm)

    def finish(self, results: Any, total: float, clip_norm: float) -> Any:
        return results


class ByNorm(NormFunction):
    short = "norm"
    operation = "clip_by_norm"

    def compute_norms(self, grads: Gradients, counted: Sequence[int], p: float) -> list[float]:
        return [self.compute_norm([grad], p) if i in counted else 0.0 for i, grad in enumerate(grads)]


class ByGlobalNorm(NormFunction):
    short = "global-norm"
    operation = "clip_by_global_norm"

    def compute_norms(self, grads: Gradients, counted: Sequence[int], p: float) -> list[float]:
        """Return the global norm once for each gradient."""
        return [self.compute_global_norm([grads[i] for i in counted], p)] * max(len(grads), 1)

    def compute_global_norm(self, tensors: Sequence[Array], p: float) -> float:
        return self.compute_norm(tensors, p)

    def finish(self, results: Any, total: float, clip_norm: float) -> Any:
        return results, self.report_norm(total, clip_norm)

    def report_norm(self, total: float, clip_norm: float) -> Any:
        return total


class ByAverage(NormFunction):
    """Clip each gradient by an average: its Euclidean norm divided by a power of the number of its elements."""

    power: ClassVar[float] = 0.0

    def __call__(self, grads: Gradients, *, clip_norm: float, need_clip: Sequence[bool]) -> Any:
        return super().__call__(grads, clip_norm=clip_norm, need_clip=need_clip)

    def compute_norms(self, grads: Gradients, counted: Sequence[int], p: float) -> list[float]:
        return [
            self.average(self.compute_norm([grad], p), grad.size) if i in counted else 0.0
            for i, grad in enumerate(grads)
        ]

    def average(self, norm: float, elements: int) -> float:
        return norm / max(elements, 1) ** self.power


class ByBlockRms(ByAverage):
    short = "block-rms"
    operation = "clip_by_block_rms"
    power = 0.5


class ByAverageNorm(ByAverage):
    short = "average-norm"
    operation = "clip_by_average_norm"
    power = 1.0


class ByExample(NormFunction):
    """Clip each example by its norm, and add the results."""

    short = "per-example"
    operation = "clip_per_example"

    def __call__(self, grads: Gradients, *, clip_norm: float, layers: str | None = None) -> Any:
        clipped = [self.clip_example(one, clip_norm, layers) for one in self.split(grads)]
        return [self.add([one[i] for one in clipped]) for i in range(len(grads))]

    def clip_example(self, grads: Gradients, clip_norm: float, layers: str | None) -> Any:
        if layers is not None:
            limits = [clip_norm * math.sqrt(share) for share in self.list_shares(grads, layers)]
            return [self.clip_example([one], limit, None)[0] for one, limit in zip(grads, limits, strict=True)]
        return super().__call__(grads, clip_norm=clip_norm, need_clip=[True] * len(grads))

    def list_shares(self, grads: Gradients, layers: str) -> list[float]:
        """Return the share of each layer: in the number of layers, or in the number of elements."""
        sizes = [1 if layers == "equal" else grad.size for grad in grads]
        return [size / max(sum(sizes), 1) for size in sizes]

    def split(self, grads: Gradients) -> list[Gradients]:
        return [[np.asarray(grad[number]) for grad in grads] for number in range(len(grads[0]))]

    def add(self, parts: Sequence[Array]) -> Array:
        return np.asarray(np.sum(np.stack(parts), axis=0, dtype=parts[0].dtype))

    def compute_norms(self, grads: Gradients, counted: Sequence[int], p: float) -> list[float]:
        return [self.compute_norm([grads[i] for i in counted], p)] * len(grads)


class ByUnit(NormFunction):
    """Clip each unit by its norm, divided by the norm of its parameter."""

    short = "unitwise"
    operation = "clip_unitwise"

    def __call__(
        self,
        grads: Gradients,
        *,
        clip_factor: float,
        parameters: Gradients,
        need_clip: Sequence[bool],
        eps: float = 1e-3,
    ) -> Any:
        every = [self.split(grad) for grad in grads]
        units = [unit for parts in every for unit in parts]
        flags = [flag for parts, flag in zip(every, need_clip, strict=True) for _ in parts]
        pairs = zip(grads, parameters, strict=True)
        self.weights = [unit for grad, weight in pairs for unit in self.split(None if grad is None else weight)]
        self.least = eps
        clipped = super().__call__(units, clip_norm=clip_factor, need_clip=flags)
        if len(clipped) != len(units):
            return clipped
        rest = iter(clipped)
        return [self.join_units(grad, [next(rest) for _ in parts]) for grad, parts in zip(grads, every, strict=True)]

    def split(self, grad: Array | None) -> list[Any]:
        """Return the units of a gradient, or of a parameter: the rows of an array with several axes."""
        return [grad] if grad is None or grad.ndim < 2 else list(grad)

    def join_units(self, grad: Array | None, units: list[Any]) -> Any:
        return units[0] if grad is None or grad.ndim < 2 else np.stack(units)

    def compute_norms(self, grads: Gradients, counted: Sequence[int], p: float) -> list[float]:
        return [
            self.divide(self.compute_norm([grad], p), self.measure(self.weights[i])) if i in counted else 0.0
            for i, grad in enumerate(grads)
        ]

    def measure(self, weight: Array) -> float:
        return max(self.compute_norm([weight], 2.0), self.least)

    def divide(self, norm: float, weight: float) -> float:
        return norm / weight if weight else norm * math.inf if norm else norm


#: The functions of all operations.
EVERY: tuple[type[ClipFunction], ...] = (ByValue, ByNorm, ByGlobalNorm, ByBlockRms, ByAverageNorm, ByExample, ByUnit)
