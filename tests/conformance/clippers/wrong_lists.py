"""Define clippers that change the list: its length, its order or its dtypes."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

import numpy as np

from .steps import Array, ByGlobalNorm, ByValue, Clipper, Gradients
from .table import caught_by


@caught_by("order-kept")
class Reverses(Clipper):
    """Return the gradients in reverse order."""

    def answer(self, grads: Gradients, need_clip: Sequence[bool], results: Gradients) -> Any:
        return results[::-1]


@caught_by("order-kept")
class SortsBySize(Clipper):
    """Sort the gradients by size, largest first."""

    def answer(self, grads: Gradients, need_clip: Sequence[bool], results: Gradients) -> Any:
        return sorted(results, key=lambda result: 0 if result is None else -result.size)


@caught_by("order-kept")
class SortsByMagnitude(Clipper):
    """Sort the gradients by their largest magnitude."""

    def answer(self, grads: Gradients, need_clip: Sequence[bool], results: Gradients) -> Any:
        return sorted(results, key=lambda one: 0.0 if one is None else float(np.max(np.abs(one), initial=0.0)))


@caught_by("order-kept")
class DropsTheLast(Clipper):
    """Drop the last gradient."""

    def answer(self, grads: Gradients, need_clip: Sequence[bool], results: Gradients) -> Any:
        return results[:-1] if len(results) > 1 else results


@caught_by("order-kept")
class GivesTheFirstTwice(Clipper):
    """Return the first gradient twice."""

    def answer(self, grads: Gradients, need_clip: Sequence[bool], results: Gradients) -> Any:
        return [*results[:1], *results]


@caught_by("order-kept")
class RotatesByOne(Clipper):
    """Move the last gradient to the front."""

    def answer(self, grads: Gradients, need_clip: Sequence[bool], results: Gradients) -> Any:
        return [*results[-1:], *results[:-1]]


@caught_by("dtype-accepted", dtypes=("float16", "float32", "float64"))
class RefusesDouble(Clipper):
    """Raise for float64, as if there were no kernel for it."""

    def take(self, grads: Gradients) -> Gradients:
        if any(grad is not None and grad.dtype == np.float64 for grad in grads):
            message = "no kernel for float64"
            raise RuntimeError(message)
        return super().take(grads)


@caught_by("mixed-dtypes", dtypes=("float16", "float32", "float64"))
class DtypeOfTheFirst(Clipper):
    """Return all gradients in the dtype of the first one."""

    def answer(self, grads: Gradients, need_clip: Sequence[bool], results: Gradients) -> Any:
        dtypes = [grad.dtype for grad in grads if grad is not None]
        return [None if result is None else np.asarray(result, dtypes[0]) for result in results]


@caught_by("mixed-dtypes", dtypes=("float16", "float32", "float64"))
class WidestDtype(Clipper):
    """Return all gradients in the widest dtype among them."""

    def answer(self, grads: Gradients, need_clip: Sequence[bool], results: Gradients) -> Any:
        dtype = np.result_type(np.float16, *(grad.dtype for grad in grads if grad is not None))
        return [None if result is None else np.asarray(result, dtype) for result in results]


@caught_by("mixed-dtypes", dtypes=("float16", "float32", "float64"))
class OneDtypeOnly(Clipper):
    """Refuse gradients of different dtypes."""

    def answer(self, grads: Gradients, need_clip: Sequence[bool], results: Gradients) -> Any:
        if len({grad.dtype for grad in grads if grad is not None}) > 1:
            message = "expected one dtype"
            raise TypeError(message)
        return results


@caught_by("mixed-dtypes", dtypes=("float16", "float32", "float64"))
class CountsOneDtype(ByGlobalNorm):
    """Count only gradients of the first gradient's dtype in the norm."""

    def compute_global_norm(self, tensors: Sequence[Array], p: float) -> float:
        return super().compute_global_norm([tensor for tensor in tensors if tensor.dtype == tensors[0].dtype], p)


@caught_by("mixed-dtypes", dtypes=("float16", "float32", "float64"))
class ClipsOneDtype(Clipper):
    """Clip only gradients of the first gradient's dtype."""

    def select_included(self, grads: Sequence[Any], need_clip: Sequence[bool]) -> list[int]:
        found = super().select_included(grads, need_clip)
        return [i for i in found if grads[i].dtype == grads[found[0]].dtype]


@caught_by("empty-list")
class RaisesForNothing(Clipper):
    """Raise for an empty list."""

    def answer(self, grads: Gradients, need_clip: Sequence[bool], results: Gradients) -> Any:
        if not grads:
            message = "no gradients"
            raise ValueError(message)
        return results


@caught_by("empty-list")
class OneForNothing(Clipper):
    """Return one empty gradient for an empty list."""

    def answer(self, grads: Gradients, need_clip: Sequence[bool], results: Gradients) -> Any:
        return results or [np.zeros(0, np.float32)]


@caught_by("global-norm.empty-list")
class NanForNothing(ByGlobalNorm):
    """Return a norm of NaN for an empty list."""

    def choose_total(self, norms: Sequence[float]) -> float:
        return super().choose_total(norms)

    def compute_norms(self, grads: Gradients, counted: Sequence[int], p: float) -> list[float]:
        return super().compute_norms(grads, counted, p) if grads else [float("nan")]


@caught_by("global-norm.empty-list")
class OneAsNormOfNothing(ByGlobalNorm):
    """Return a norm of 1 for an empty list."""

    def compute_norms(self, grads: Gradients, counted: Sequence[int], p: float) -> list[float]:
        return super().compute_norms(grads, counted, p) if grads else [1.0]


@caught_by("many-tensors")
class FirstSixtyFour(Clipper):
    """Clip only the first 64 gradients."""

    def select_included(self, grads: Sequence[Any], need_clip: Sequence[bool]) -> list[int]:
        return super().select_included(grads, need_clip)[:64]


@caught_by("many-tensors")
class SixtyFourAtMost(Clipper):
    """Refuse more than 64 gradients."""

    def answer(self, grads: Gradients, need_clip: Sequence[bool], results: Gradients) -> Any:
        if len(grads) > 64:
            message = "too many arguments"
            raise ValueError(message)
        return results


@caught_by("many-tensors")
class Recursive(Clipper):
    """Exceed the recursion limit if there are many gradients."""

    def answer(self, grads: Gradients, need_clip: Sequence[bool], results: Gradients) -> Any:
        if len(grads) > sys.getrecursionlimit() // 2:
            message = "maximum recursion depth exceeded"
            raise RecursionError(message)
        return results


@caught_by("global-norm.many-tensors")
class NormOfEachBatch(ByGlobalNorm):
    """Compute a separate norm for each batch of 256 gradients."""

    def compute_norms(self, grads: Gradients, counted: Sequence[int], p: float) -> list[float]:
        norms: list[float] = []
        for start in range(0, max(len(grads), 1), 256):
            batch = [i for i in counted if start <= i < start + 256]
            norms += super().compute_norms(grads, batch, p)[: max(min(256, len(grads) - start), 1)]
        return norms


@caught_by("global-norm.many-tensors")
class CountsTheFirstHundred(ByGlobalNorm):
    """Count only the first 100 gradients in the norm."""

    def select_counted(self, grads: Sequence[Any], need_clip: Sequence[bool]) -> list[int]:
        return super().select_counted(grads, need_clip)[:100]


@caught_by("value.many-tensors")
class OddOnesOnly(ByValue):
    """Clip only every second gradient of a list of 50 or more."""

    def select_included(self, grads: Sequence[Any], need_clip: Sequence[bool]) -> list[int]:
        found = super().select_included(grads, need_clip)
        return found if len(found) < 50 else found[::2]


@caught_by("order-kept")
class ReversesLongLists(Clipper):
    """Reverse lists of more than ten gradients."""

    def answer(self, grads: Gradients, need_clip: Sequence[bool], results: Gradients) -> Any:
        return results[::-1] if len(results) > 10 else results


@caught_by("global-norm.excluded-not-counted")
class CountsExcludedScalars(ByGlobalNorm):
    """Count excluded zero-dimensional gradients in the norm."""

    def select_counted(self, grads: Sequence[Any], need_clip: Sequence[bool]) -> list[int]:
        return [i for i, grad in enumerate(grads) if grad is not None and (need_clip[i] or not grad.ndim)]


@caught_by("excluded-untouched")
class FlattensDeepExcluded(Clipper):
    """Flatten excluded gradients of three or more dimensions."""

    def leave(self, grad: Array) -> Any:
        return grad.reshape(-1) if grad.ndim > 2 else grad


@caught_by("excluded-untouched")
class ExcludedInMemoryOrder(Clipper):
    """Copy excluded gradients in memory order, which can permute their elements."""

    def leave(self, grad: Array) -> Any:
        return grad.ravel(order="K").reshape(grad.shape)


@caught_by("zero-dimensional")
class ScalarsBecomeFloats(Clipper):
    """Return a Python float for a zero-dimensional gradient."""

    def hand_back(self, grad: Array, result: Any) -> Any:
        return float(result) if grad.ndim == 0 else result
