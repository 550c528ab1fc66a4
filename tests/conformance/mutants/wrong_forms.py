"""Define mutants that are right for short vectors and wrong for other gradients: matrices, scalars, long vectors."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .steps import Array, ByGlobalNorm, ByValue, ClipFunction, Gradients, NormFunction
from .table import caught_by

#: A function that tells whether a gradient has a certain form.
Form = Callable[[Array], bool]

EVERY_DTYPE = ("float16", "float32", "float64")


def is_matrix(grad: Array) -> bool:
    """Tell whether a gradient has two dimensions."""
    return grad.ndim == 2


def is_deep(grad: Array) -> bool:
    """Tell whether a gradient has more than two dimensions."""
    return grad.ndim > 2


def is_long(grad: Array) -> bool:
    """Tell whether a gradient has more than 200 elements."""
    return grad.size > 200


# Excluded gradients.


class _CountsExcluded(ByGlobalNorm):
    """Base of the mutants that count excluded gradients of one form."""

    form: Form

    def select_counted(self, grads: Sequence[Any], need_clip: Sequence[bool]) -> list[int]:
        of_form = [i for i, grad in enumerate(grads) if grad is not None and type(self).form(grad)]
        return sorted({*super().select_counted(grads, need_clip), *of_form})


@caught_by("excluded-not-counted", dtypes=EVERY_DTYPE)
class CountsExcludedMatrices(_CountsExcluded):
    """Count excluded matrices in the norm."""

    form = is_matrix


@caught_by("excluded-not-counted", dtypes=EVERY_DTYPE)
class CountsExcludedLongOnes(_CountsExcluded):
    """Count excluded gradients of more than 200 elements in the norm."""

    form = is_long


# Bounds.


@caught_by("value.bounds", dtypes=("float64",))
class MinusMaxForMatrices(ByValue):
    """Use -max as the lower bound of gradients with two or more dimensions."""

    def clip(self, grad: Array, low: float, high: float) -> Array:
        return super().clip(grad, min(-high, high) if grad.ndim > 1 and high > 0 else low, high)


@caught_by("value.nan-stays", dtypes=("float16", "float64"))
class NanIsZeroInLongOnes(ByValue):
    """Replace NaN by 0 in gradients of 201 to 1,999 elements."""

    def hand_back(self, grad: Array, result: Any) -> Any:
        return np.where(np.isnan(result), grad.dtype.type(0), result) if 200 < grad.size < 2000 else result


# NaN and infinity.


class _LosesNonfinite(NormFunction):
    """Base of the mutants that leave NaN and infinity out of the norm of gradients of one form."""

    form: Form

    def join(self, tensors: Sequence[Array]) -> Array:
        form = type(self).form
        return super().join([tensor[np.isfinite(tensor)] if form(tensor) else tensor for tensor in tensors])


@caught_by("nan-not-silent", "infinity-not-silent")
class LosesNonfiniteInDeepOnes(_LosesNonfinite):
    """Compute the norm without the NaN and infinities in gradients of three or more dimensions."""

    form = is_deep


# `norm.nan-not-silent` cannot catch this function: a NaN scalar that is clipped by its own norm stays NaN anyway.
@caught_by("infinity-not-silent", "global-norm.nan-not-silent")
class LosesNonfiniteInScalars(_LosesNonfinite):
    """Compute the norm without the NaN and infinities in zero-dimensional gradients."""

    @staticmethod
    def form(grad: Array) -> bool:
        return grad.ndim == 0


@caught_by("nan-not-silent", "infinity-not-silent")
class LosesNonfiniteInLongOnes(_LosesNonfinite):
    """Compute the norm without the NaN and infinities in gradients of more than 200 elements."""

    form = is_long


@caught_by("global-norm.error-if-nonfinite-atomic")
class ZerosManyBeforeRaising(ByGlobalNorm):
    """If there are more than two gradients, set them to zero before raising the error."""

    def refuse_nonfinite(self, grads: Gradients, norms: Sequence[float]) -> None:
        if not math.isfinite(norms[0]) and len(grads) > 2:
            for grad in grads:
                grad[...] = 0
        super().refuse_nonfinite(grads, norms)


# The norm.


@caught_by("half-not-accumulated-in-half", dtypes=("float16",))
class MatricesInHalf(NormFunction):
    """Sum the squares of matrices in float16."""

    def compute_norm(self, tensors: Sequence[Array], p: float) -> float:
        if p != 2 or not tensors or not all(map(is_matrix, tensors)):
            return super().compute_norm(tensors, p)
        with np.errstate(over="ignore"):
            squares = np.square(self.join(tensors)).astype(np.float16)
            return float(np.sqrt(np.float64(np.add.accumulate(squares)[-1])))


# Effects on the input.


class _WritesBut(ClipFunction):
    """Base of the mutants that write results in place, except into gradients of one form."""

    def hand_back(self, grad: Array, result: Any) -> Any:
        if self.is_written(grad):
            grad[...] = result
        return np.array(result)

    def is_written(self, grad: Array) -> bool:
        raise NotImplementedError


@caught_by("in-place-written", in_place=True)
class WritesNoReversed(_WritesBut):
    """Do not write into gradients with negative strides."""

    def is_written(self, grad: Array) -> bool:
        return all(stride >= 0 for stride in grad.strides)


@caught_by("in-place-written", in_place=True)
class WritesNoThreeDimensions(_WritesBut):
    """Do not write into gradients of three or more dimensions."""

    def is_written(self, grad: Array) -> bool:
        return not is_deep(grad)


@caught_by("inputs-not-mutated", in_place=False)
class OverwritesThreeDimensions(ClipFunction):
    """Overwrite input gradients of three or more dimensions with zeros."""

    def hand_back(self, grad: Array, result: Any) -> Any:
        right = np.array(result)
        if is_deep(grad):
            grad[...] = 0
        return right


@caught_by("inputs-not-mutated", in_place=False)
class ZerosWhatBecomesZero(ClipFunction):
    """Overwrite an input gradient with zeros if its result is zero."""

    def hand_back(self, grad: Array, result: Any) -> Any:
        right = np.array(result)
        if not right.any():
            grad[...] = 0
        return right
