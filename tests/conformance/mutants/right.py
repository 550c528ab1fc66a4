"""Define right functions that are written differently from the reference. The suite must accept all of them.

The specification says what is right. A function that lacks an ability (norms of other orders, `error_if_nonfinite`) has
no parameter for it, so no case asks for it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from .right_norms import NORMS, Norm
from .right_scalings import SCALINGS, Scaling
from .steps import EVERY, Array, Gradients

__all__ = [
    "RIGHT",
    "Limit",
    "Right",
    "make_global_norm_function",
    "make_own_norm_function",
    "make_value_function",
    "read_threshold",
]


@dataclass(frozen=True)
class Right:
    """A function without a defect."""

    name: str
    function: Callable[..., Any]
    operation: str
    in_place: bool | None = None
    #: Whether the error of its norm grows with the number of elements. Then a result for large tensors is inaccurate,
    #: but not wrong.
    grows: bool = False


#: Norms with running sums: the library's products and norms.
GROWING = ("dot_product", "library_norm_of_each")


#: A function that takes a gradient and both bounds, and returns the result.
Limit = Callable[[Array, float, float], Array]


def _limit_in_place(grad: Array, low: float, high: float) -> Array:
    """Write only the elements beyond the bounds."""
    np.copyto(grad, grad.dtype.type(high), where=grad > high)
    np.copyto(grad, grad.dtype.type(low), where=grad < low)
    return grad


#: Ways to limit elements. NaN stays NaN, zeros keep their signs, and the dtype stays. Float64 holds all dtypes.
LIMITS: dict[str, Limit] = {
    "maximum_of_minimum": lambda grad, low, high: np.asarray(
        np.maximum(np.minimum(grad, grad.dtype.type(high)), grad.dtype.type(low))
    ),
    "through_float64": lambda grad, low, high: np.clip(grad.astype(np.float64), low, high).astype(grad.dtype),
    "in_place_by_mask": _limit_in_place,
}


def read_threshold(clip_norm: Any) -> float:
    """Return a threshold as a float, whatever kind of number it is; refuse a negative one."""
    if clip_norm < 0:
        message = f"clip_norm is {clip_norm}, but must not be negative"
        raise ValueError(message)
    return float(clip_norm)


def make_global_norm_function(norm: Norm, scale: Scaling) -> Callable[..., Any]:
    """Return a clip by global norm, which also returns the norm."""

    def clip(
        grads: Gradients, *, clip_norm: float, need_clip: Sequence[bool], error_if_nonfinite: bool = False
    ) -> tuple[Gradients, float]:
        clip_norm = read_threshold(clip_norm)
        chosen = [grad is not None and flag for grad, flag in zip(grads, need_clip, strict=True)]
        total = norm([grad for grad, flag in zip(grads, chosen, strict=True) if flag])
        if error_if_nonfinite and not math.isfinite(total):
            message = f"the total norm is {total}"
            raise RuntimeError(message)
        results, scaled = list(grads), set[int]()
        for place, grad in enumerate(grads):
            if chosen[place] and id(grad) not in scaled:
                results[place] = scale(grad, clip_norm, total)
                # A tensor that occurs twice in the list must be written only once.
                scaled |= {id(grad)} if results[place] is grad else set()
        return results, total

    return clip


def make_own_norm_function(norm: Norm, scale: Scaling) -> Callable[..., Any]:
    """Return a clip by norm."""

    def clip(grads: Gradients, *, clip_norm: float, need_clip: Sequence[bool]) -> Gradients:
        clip_norm = read_threshold(clip_norm)
        results = []
        for grad, flag in zip(grads, need_clip, strict=True):
            results.append(grad if grad is None or not flag else scale(grad, clip_norm, norm([grad])))
        return results

    return clip


def make_value_function(limit: Limit) -> Callable[..., Any]:
    """Return a clip by value."""

    def clip(grads: Gradients, *, max: float, need_clip: Sequence[bool], min: float | None = None) -> Gradients:
        low = -max if min is None else min
        pairs = zip(grads, need_clip, strict=True)
        return [limit(grad, low, max) if flag and grad is not None else grad for grad, flag in pairs]

    return clip


def _clip_by_p_norm(
    grads: Gradients,
    *,
    clip_norm: float,
    need_clip: Sequence[bool],
    norm_type: float = 2.0,
    error_if_nonfinite: bool = False,
) -> tuple[Gradients, Any]:
    """Clip by the norm of any order, computed in long double over one buffer, and return it in long double."""
    clip_norm = read_threshold(clip_norm)
    chosen = [i for i, grad in enumerate(grads) if need_clip[i] and grad is not None]
    buffer = np.concatenate([np.zeros(0, np.longdouble), *(grads[i].astype(np.longdouble).ravel() for i in chosen)])
    largest = np.max(np.abs(buffer), initial=np.longdouble(0))
    total = largest
    if math.isfinite(largest) and largest > 0 and norm_type != math.inf:
        # If the sum of powers is exact in this format and has an exact root, use this root.
        powers = np.sum(np.abs(buffer) ** np.longdouble(norm_type))
        total = np.sqrt(powers) if norm_type == 2 else powers ** (1 / np.longdouble(norm_type))
    total = np.longdouble(np.float64(total))
    if error_if_nonfinite and not np.isfinite(total):
        message = f"the total norm is {total}"
        raise FloatingPointError(message)
    if total <= clip_norm:
        return grads, total
    buffer = buffer * np.longdouble(clip_norm) / np.longdouble(total)
    results, start = list(grads), 0
    for i in chosen:
        part = buffer[start : start + grads[i].size]
        results[i], start = part.reshape(grads[i].shape).astype(grads[i].dtype), start + grads[i].size
    return results, total


def _clip_finite_norms_only(
    grads: Gradients, *, clip_norm: float, need_clip: Sequence[bool]
) -> tuple[Gradients, float]:
    """Clip, and raise for every norm that is not finite, because the function has no option for that."""
    clip = make_global_norm_function(next(iter(NORMS.values())), next(iter(SCALINGS.values())))
    results, total = clip(grads, clip_norm=clip_norm, need_clip=need_clip, error_if_nonfinite=True)
    return list(results), total


def _list_averages() -> Iterator[Right]:
    """Yield clips by averages, which divide the norm or multiply the threshold."""
    for operation, power in (("clip_by_block_rms", 0.5), ("clip_by_average_norm", 1.0)):
        for name, norm, how in (
            ("quotient", "long_double", "least_coefficient"),
            ("product", "three_ranges", "larger_divisor"),
        ):
            clip = _make_average_function(NORMS[norm], SCALINGS[how], power, divides=name == "quotient")
            yield Right(f"{norm}-{how}-{name}", clip, operation)


def _make_average_function(norm: Norm, scale: Scaling, power: float, *, divides: bool) -> Callable[..., Any]:
    def clip(grads: Gradients, *, clip_norm: float, need_clip: Sequence[bool]) -> Gradients:
        clip_norm = read_threshold(clip_norm)
        results = list(grads)
        for i, grad in enumerate(grads):
            if grad is None or not need_clip[i]:
                continue
            root, size = max(grad.size, 1) ** power, norm([grad])
            results[i] = scale(grad, clip_norm, size / root) if divides else scale(grad, clip_norm * root, size)
        return results

    return clip


def _clip_all_examples_at_once(grads: Gradients, *, clip_norm: float, layers: str | None = None) -> Gradients:
    """Clip all examples in one go: a matrix holds the coefficient of each gradient of each example."""
    clip_norm = read_threshold(clip_norm)
    matrices = [grad.astype(np.longdouble).reshape(len(grad), -1) for grad in grads]
    squares = np.stack([np.sum(np.square(one), axis=1) for one in matrices])
    sizes = np.array([one.shape[1] if layers == "by size" else 1 for one in matrices], np.longdouble)
    limits = np.longdouble(clip_norm) * (np.sqrt(sizes / sizes.sum())[:, None] if layers else 1)
    norms = np.sqrt(squares if layers else np.broadcast_to(squares.sum(axis=0), squares.shape))
    factors = np.divide(limits, norms, out=np.ones_like(norms), where=~(norms <= limits))
    sums = [np.sum(one * factor[:, None], axis=0) for one, factor in zip(matrices, factors, strict=True)]
    return [np.asarray(one.reshape(grad.shape[1:]).astype(grad.dtype)) for one, grad in zip(sums, grads, strict=True)]


def _clip_all_units_at_once(
    grads: Gradients, *, clip_factor: float, parameters: Gradients, need_clip: Sequence[bool], eps: float = 1e-3
) -> Gradients:
    """Clip all units of a tensor in one computation, in long double."""
    clip_factor = read_threshold(clip_factor)
    results = list(grads)
    for i, grad in enumerate(grads):
        if grad is None or not need_clip[i]:
            continue
        axes = tuple(range(1, grad.ndim)) or None
        norms, weights = (
            np.sqrt(np.sum(np.square(one.astype(np.longdouble)), axis=axes, keepdims=True))
            for one in (grad, parameters[i])
        )
        limits = np.longdouble(clip_factor) * np.maximum(weights, eps)
        factors = np.divide(limits, norms, out=np.ones_like(norms), where=~(norms <= limits))
        results[i] = np.asarray(grad * factors).astype(grad.dtype).reshape(grad.shape)
    return results


def _list_right() -> Iterator[Right]:
    scalings = list(SCALINGS.items())
    for number, (name, norm) in enumerate(NORMS.items()):
        # Each norm gets two partners, so that each way of scaling meets more than one norm.
        for function, operation, partner in (
            (make_own_norm_function, "clip_by_norm", number),
            (make_global_norm_function, "clip_by_global_norm", 3 * number + 1),
        ):
            how, scale = scalings[partner % len(scalings)]
            in_place = True if how.startswith("in_place") else None
            yield Right(f"{name}-{how}", function(norm, scale), operation, in_place, name in GROWING)
    for name, limit in LIMITS.items():
        yield Right(name, make_value_function(limit), "clip_by_value", True if name.startswith("in_place") else None)
    yield Right("p_norms_in_long_double", _clip_by_p_norm, "clip_by_global_norm")
    yield Right("finite_norms_only", _clip_finite_norms_only, "clip_by_global_norm")
    for base in EVERY:
        yield Right(f"steps-{base.short}", base(), base.operation, False)
    yield from _list_averages()
    yield Right("all_examples_at_once", _clip_all_examples_at_once, "clip_per_example")
    yield Right("all_units_at_once", _clip_all_units_at_once, "clip_unitwise")


RIGHT = tuple(_list_right())
