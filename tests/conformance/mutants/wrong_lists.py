"""Define mutants that change the list or an array in it: length, order, dtypes, shape or layout."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

import numpy as np

from .steps import Array, ByGlobalNorm, ClipFunction, Gradients, NormFunction
from .table import caught_by


@caught_by("dtype-accepted", dtypes=("float16", "float32", "float64"))
class RefusesDouble(ClipFunction):
    """Raise for float64, as if there were no kernel for it."""

    def take(self, grads: Gradients) -> Gradients:
        if any(grad is not None and grad.dtype == np.float64 for grad in grads):
            message = "no kernel for float64"
            raise RuntimeError(message)
        return super().take(grads)


@caught_by("mixed-dtypes", dtypes=("float16", "float32", "float64"))
class DtypeOfTheFirst(ClipFunction):
    """Return all gradients in the dtype of the first one."""

    def answer(self, grads: Gradients, need_clip: Sequence[bool], results: Gradients) -> Any:
        dtypes = [grad.dtype for grad in grads if grad is not None]
        return [None if result is None else np.asarray(result, dtypes[0]) for result in results]


@caught_by("empty-list")
class RaisesForNothing(ClipFunction):
    """Raise for an empty list."""

    def answer(self, grads: Gradients, need_clip: Sequence[bool], results: Gradients) -> Any:
        if not grads:
            message = "no gradients"
            raise ValueError(message)
        return results


@caught_by("many-tensors")
class Recursive(ClipFunction):
    """Exceed the recursion limit if there are many gradients."""

    def answer(self, grads: Gradients, need_clip: Sequence[bool], results: Gradients) -> Any:
        if len(grads) > sys.getrecursionlimit() // 2:
            message = "maximum recursion depth exceeded"
            raise RecursionError(message)
        return results


@caught_by("order-kept")
class ReversesLongLists(ClipFunction):
    """Reverse lists of more than ten gradients."""

    def answer(self, grads: Gradients, need_clip: Sequence[bool], results: Gradients) -> Any:
        return results[::-1] if len(results) > 10 else results


@caught_by("global-norm.excluded-not-counted")
class CountsExcludedScalars(ByGlobalNorm):
    """Count excluded zero-dimensional gradients in the norm."""

    def select_counted(self, grads: Sequence[Any], need_clip: Sequence[bool]) -> list[int]:
        return [i for i, grad in enumerate(grads) if grad is not None and (need_clip[i] or not grad.ndim)]


@caught_by("excluded-untouched")
class FlattensDeepExcluded(ClipFunction):
    """Flatten excluded gradients of three or more dimensions."""

    def leave(self, grad: Array) -> Any:
        return grad.reshape(-1) if grad.ndim > 2 else grad


@caught_by("excluded-untouched")
class ExcludedInMemoryOrder(ClipFunction):
    """Copy excluded gradients in memory order, which can permute their elements."""

    def leave(self, grad: Array) -> Any:
        return grad.ravel(order="K").reshape(grad.shape)


@caught_by("empty-tensor")
class RaisesForEmptyTensors(ClipFunction):
    """Raise for an empty tensor, because it has no largest element."""

    def hand_back(self, grad: Array, result: Any) -> Any:
        np.max(grad)
        return result


@caught_by("empty-tensor")
class FlattensEmptyTensors(ClipFunction):
    """Flatten empty tensors."""

    def hand_back(self, grad: Array, result: Any) -> Any:
        return result if grad.size else result.ravel()


@caught_by("zero-dimensional")
class ScalarsLeftAlone(ClipFunction):
    """Do not clip zero-dimensional gradients."""

    def hand_back(self, grad: Array, result: Any) -> Any:
        return result if grad.ndim else grad


@caught_by("shape-kept")
class Flattens(ClipFunction):
    """Flatten every gradient."""

    def hand_back(self, grad: Array, result: Any) -> Any:
        return np.ravel(result)


@caught_by("shape-kept")
class FlattensTheUnclipped(NormFunction):
    """Flatten gradients that are not scaled."""

    def clip(self, grad: Array, clip_norm: float, norm: float) -> Array:
        return super().clip(grad, clip_norm, norm) if self.is_above(norm, clip_norm) else grad.ravel()


@caught_by("dtype-kept")
@caught_by("mixed-dtypes", dtypes=("float16", "float32", "float64"))
class Widens(ClipFunction):
    """Return every gradient in float64."""

    def hand_back(self, grad: Array, result: Any) -> Any:
        return np.asarray(result, np.float64)
