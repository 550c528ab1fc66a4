"""Add mutants with effects beside the result: on the inputs, on later calls, on other threads, on warnings."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .steps import Array, ByValue, ClipFunction, Gradients
from .table import add_mutant, list_rules

# Inputs and results.


def _write(self: ClipFunction, grad: Array, result: Array) -> Array:
    grad[...] = result
    return grad


add_mutant(
    "writes the results into the inputs, although the adapter says otherwise",
    "*.inputs-not-mutated",
    causes=["inputs-changed", "raises"],
    in_place=False,
    hand_back=_write,
)
add_mutant(
    "returns new arrays, although the adapter says that the inputs are written",
    "*.in-place-written",
    causes=["not-written"],
    in_place=True,
    hand_back=lambda self, grad, result: np.array(result),
)
add_mutant(
    "scales a tensor twice if it occurs twice in the list",
    "*.repeated-tensor-in-place",
    causes=["scaled-for-each-place"],
    in_place=True,
    hand_back=_write,
)
add_mutant(
    "halves every result, so that a second clip changes it again",
    "*.twice-is-once",
    causes=["multiple", "unexplained"],
    hand_back=lambda self, grad, result: result * grad.dtype.type(0.5),
)


def _lock(result: Any) -> Any:
    """Return a copy that cannot be written."""
    return None if result is None else np.frombuffer(bytes(result), result.dtype).reshape(result.shape)


add_mutant(
    "returns arrays that cannot be written",
    "*.results-independent",
    causes=["results-read-only"],
    hand_back=lambda self, grad, result: _lock(result),
    add=lambda self, parts: _lock(self.right.add(parts)),
    join_units=lambda self, grad, units: _lock(self.right.join_units(grad, units)),
)


def _write_whole_vectors(self: ClipFunction, grad: Array, result: Array) -> Array:
    buffer = grad.base
    if buffer is not None and buffer.flags.c_contiguous and buffer.flags.writeable and grad.flags.c_contiguous:
        memory = buffer.reshape(-1).view(np.uint8)
        end = grad.ctypes.data + grad.nbytes - buffer.ctypes.data
        memory[end : end + -grad.nbytes % 16] = 0
    return result


add_mutant(
    "zeroes the bytes behind a gradient that lies within a buffer, up to the end of a vector of 16 bytes",
    "value.combinations",
    "norm.combinations",
    "global-norm.combinations",
    causes=["unexplained", "excluded-changed"],
    dtypes=["float32", "float64"],
    hand_back=_write_whole_vectors,
)

# Later calls.


def _keep_one_buffer(self: ClipFunction, grads: Gradients, need_clip: Sequence[bool], results: Gradients) -> Gradients:
    buffers = vars(self).setdefault("buffers", {})
    for i, one in enumerate(results):
        if one is not None and need_clip[i]:
            results[i] = buffers.setdefault((i, one.dtype, one.shape), np.empty_like(one))
            results[i][...] = one
    return results


add_mutant(
    "writes the results of every call into the same arrays",
    "*.results-survive",
    causes=["memory-shared", "unexplained"],
    answer=_keep_one_buffer,
)


def _remember_by_object(
    self: ClipFunction, grads: Gradients, need_clip: Sequence[bool], clip_one: Callable[[int], Array]
) -> Any:
    # Keep the gradients too, so that Python cannot reuse an id.
    kept = vars(self).setdefault("kept", {})
    name = tuple(map(id, grads))
    if name not in kept:
        kept[name] = (grads, self.right.clip_all(grads, need_clip, clip_one))
    return kept[name][1]


add_mutant(
    "repeats the first result for the same array objects, even if their elements have changed",
    *list_rules("repeatable", lambda operation: not operation.is_stacked),
    clip_all=_remember_by_object,
)


def _differ_every_other_time(self: Any, grads: Gradients, **options: Any) -> Any:
    self.is_odd = not getattr(self, "is_odd", False)
    results = self.right.__call__(grads, **options)
    return results if self.is_odd else [None if one is None else np.nextafter(one, np.float32(9)) for one in results]


add_mutant(
    "returns the next floating-point numbers on every other call",
    *list_rules("repeatable", lambda operation: operation.is_stacked),
    causes=["excluded-changed", "unexplained"],
    __call__=_differ_every_other_time,
)


# Other threads, and the surroundings.

#: What mutants keep in the module during a call.
KEPT: dict[Any, Any] = {}


def _keep_threshold(self: Any, clip_norm: float) -> None:
    self.right.check(clip_norm)
    KEPT["clip_norm"] = clip_norm


def _limit_in_buffer(self: ByValue, grad: Array, low: float, high: float) -> Array:
    buffer: Array = KEPT.setdefault((grad.shape, grad.dtype), np.empty_like(grad))
    np.minimum(grad, grad.dtype.type(high), out=buffer)
    return np.asarray(np.maximum(buffer, grad.dtype.type(low)))


add_mutant(
    "keeps the threshold in the module while it scales",
    "*.threads-agree",
    check=_keep_threshold,
    clip=lambda self, grad, clip_norm, norm: self.right.clip(grad, KEPT["clip_norm"], norm),
)
add_mutant("clips in a buffer of the module", "value.threads-agree", limit=_limit_in_buffer)


def _switch_errors_off(self: ClipFunction, grads: Gradients) -> Any:
    np.seterr(all="ignore")
    return self.right.take(grads)


add_mutant(
    "switches NumPy's floating-point errors off, and does not restore them",
    "*.surroundings-kept",
    causes=["surroundings-changed"],
    take=_switch_errors_off,
)


def _warn(self: ClipFunction, grads: Gradients, need_clip: Sequence[bool], results: Gradients) -> Gradients:
    np.ones(1) / np.zeros(1)
    return results


add_mutant("divides by zero, and hides the result but not the warning", "*.no-warnings", causes=["warns"], answer=_warn)
