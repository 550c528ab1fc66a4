"""Clippers that are right for short vectors, and wrong for one form of gradient: matrices, scalars, long ones."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .steps import Array, ByGlobalNorm, ByValue, Clipper, Gradients, NormClipper
from .table import caught_by

#: Whether a gradient has the form.
Form = Callable[[Array], bool]

EVERY_DTYPE = ("float16", "float32", "float64")


def is_matrix(grad: Array) -> bool:
    """Rows and columns."""
    return grad.ndim == 2


def is_deep(grad: Array) -> bool:
    """More dimensions than a matrix has."""
    return grad.ndim > 2


def is_long(grad: Array) -> bool:
    """More elements than a small block has."""
    return grad.size > 200


# What is excluded.


class _CountsExcluded(ByGlobalNorm):
    """Shared by those that count excluded gradients of one form."""

    form: Form

    def counted(self, grads: Sequence[Any], need_clip: Sequence[bool]) -> list[int]:
        of_form = [i for i, grad in enumerate(grads) if grad is not None and type(self).form(grad)]
        return sorted({*super().counted(grads, need_clip), *of_form})


@caught_by("excluded-not-counted", dtypes=EVERY_DTYPE)
class CountsExcludedMatrices(_CountsExcluded):
    """Counts a matrix whether it is excluded or not."""

    form = is_matrix


@caught_by("excluded-not-counted", dtypes=EVERY_DTYPE)
class CountsExcludedLongOnes(_CountsExcluded):
    """Counts a long gradient whether it is excluded or not."""

    form = is_long


@caught_by("global-norm.excluded-not-counted")
class NormOfAllWhereNothingIsClipped(ByGlobalNorm):
    """Returns the norm of all gradients, excluded or not, where some are included and nothing is clipped."""

    def norms(self, grads: Gradients, counted: Sequence[int], p: float) -> list[float]:
        self.all = self.norm([grad for grad in grads if grad is not None], p) if counted else 0.0
        return super().norms(grads, counted, p)

    def returned_norm(self, total: float, clip_norm: float) -> Any:
        return total if total > clip_norm else self.all


# Bounds.


@caught_by("value.bounds", dtypes=("float64",))
class MinusMaxForMatrices(ByValue):
    """Clips what has more than one dimension from below by minus max."""

    def clip(self, grad: Array, low: float, high: float) -> Array:
        return super().clip(grad, min(-high, high) if grad.ndim > 1 and high > 0 else low, high)


@caught_by("value.bounds", dtypes=EVERY_DTYPE)
class MinusMaxForSeveral(ByValue):
    """Clips several gradients from below by minus max."""

    def taken(self, grads: Any) -> Gradients:
        self.count = len(taken := super().taken(grads))
        return taken

    def bounds(self, low: float | None, high: float) -> tuple[float, float]:
        return super().bounds(None if self.count > 1 and high > 0 else low, high)


@caught_by("value.bounds", dtypes=("float16", "float64"))
class MinusMaxForLongOnes(ByValue):
    """Clips long gradients of other dtypes than float32 from below by minus max; those of 16 bits that hold NaN not."""

    def clip(self, grad: Array, low: float, high: float) -> Array:
        return super().clip(grad, -high if is_long(grad) and high > 0 and np.isfinite(grad).all() else low, high)


@caught_by("value.nan-stays", dtypes=("float16", "float64"))
class NanIsZeroInOtherForms(ByValue):
    """Puts zeros in the place of NaN, but in vectors."""

    def hand_back(self, grad: Array, result: Any) -> Any:
        return result if grad.ndim == 1 else np.where(np.isnan(result), grad.dtype.type(0), result)


@caught_by("value.nan-stays", dtypes=("float16", "float64"))
class NanIsZeroInLongOnes(ByValue):
    """Puts zeros in the place of NaN in long gradients, but in those that hold every number of 16 bits."""

    def hand_back(self, grad: Array, result: Any) -> Any:
        return np.where(np.isnan(result), grad.dtype.type(0), result) if 200 < grad.size < 2000 else result


# What is not finite.


class _LosesNonfinite(NormClipper):
    """Shared by those that leave what is not finite out of the norm of gradients of one form."""

    form: Form

    def joined(self, tensors: Sequence[Array]) -> Array:
        form = type(self).form
        return super().joined([tensor[np.isfinite(tensor)] if form(tensor) else tensor for tensor in tensors])


@caught_by("nan-not-silent", "infinity-not-silent", dtypes=("float64",))
class LosesNonfiniteInMatrices(_LosesNonfinite):
    """Leaves what is not finite in float64 matrices out of the norm."""

    form = is_matrix


@caught_by("nan-not-silent", "infinity-not-silent")
class LosesNonfiniteInDeepOnes(_LosesNonfinite):
    """Leaves what is not finite in gradients of three dimensions out of the norm."""

    form = is_deep


# A scalar that is NaN stays so when it is clipped by its own norm, whatever that is.
@caught_by("infinity-not-silent", "global-norm.nan-not-silent")
class LosesNonfiniteInScalars(_LosesNonfinite):
    """Leaves what is not finite in gradients of no dimensions out of the norm."""

    @staticmethod
    def form(grad: Array) -> bool:
        return grad.ndim == 0


@caught_by("nan-not-silent", "infinity-not-silent")
class LosesNonfiniteInLongOnes(_LosesNonfinite):
    """Leaves what is not finite in long gradients out of the norm."""

    form = is_long


@caught_by("nan-not-silent", "infinity-not-silent")
class LosesNonfiniteInStridedOnes(_LosesNonfinite):
    """Leaves what is not finite in gradients that do not lie in one piece out of the norm."""

    @staticmethod
    def form(grad: Array) -> bool:
        return not grad.flags.c_contiguous


@caught_by("global-norm.error-if-nonfinite-atomic", dtypes=EVERY_DTYPE)
class ZerosOtherFormsBeforeRaising(ByGlobalNorm):
    """Sets what is no vector to zero before it raises."""

    def refuse_nonfinite(self, grads: Gradients, norms: Sequence[float]) -> None:
        if not math.isfinite(norms[0]):
            for grad in grads:
                if grad is not None and grad.ndim != 1:
                    grad[...] = 0
        super().refuse_nonfinite(grads, norms)


@caught_by("global-norm.error-if-nonfinite-atomic")
class ZerosManyBeforeRaising(ByGlobalNorm):
    """Sets more than two gradients to zero before it raises."""

    def refuse_nonfinite(self, grads: Gradients, norms: Sequence[float]) -> None:
        if not math.isfinite(norms[0]) and len(grads) > 2:
            for grad in grads:
                grad[...] = 0
        super().refuse_nonfinite(grads, norms)


# The norm.


@caught_by("global-norm.returned-norm", dtypes=("float16", "float64"))
class MatrixNormAfterTheClip(ByGlobalNorm):
    """Returns the norm after the clip where there is a matrix."""

    def norms(self, grads: Gradients, counted: Sequence[int], p: float) -> list[float]:
        self.has_matrix = any(is_matrix(grads[i]) for i in counted)
        return super().norms(grads, counted, p)

    def returned_norm(self, total: float, clip_norm: float) -> Any:
        return min(total, clip_norm) if self.has_matrix else total


@caught_by("half-not-accumulated-in-half", dtypes=("float16",))
class MatricesInHalf(NormClipper):
    """Adds the squares of a matrix up in float16."""

    def norm(self, tensors: Sequence[Array], p: float) -> float:
        if p != 2 or not tensors or not all(map(is_matrix, tensors)):
            return super().norm(tensors, p)
        with np.errstate(over="ignore"):
            squares = np.square(self.joined(tensors)).astype(np.float16)
            return float(np.sqrt(np.float64(np.add.accumulate(squares)[-1])))


# What was passed.


class _WritesBut(Clipper):
    """Shared by those that write their results into gradients, but not of one form."""

    def hand_back(self, grad: Array, result: Any) -> Any:
        if self.is_written(grad):
            grad[...] = result
        return np.array(result)

    def is_written(self, grad: Array) -> bool:
        raise NotImplementedError


@caught_by("in-place-written", in_place=True)
class WritesNoReversed(_WritesBut):
    """Writes into gradients that lie forwards."""

    def is_written(self, grad: Array) -> bool:
        return all(stride >= 0 for stride in grad.strides)


@caught_by("in-place-written", in_place=True)
class WritesNoThreeDimensions(_WritesBut):
    """Writes into vectors and matrices."""

    def is_written(self, grad: Array) -> bool:
        return not is_deep(grad)


@caught_by("in-place-written", in_place=True)
class WritesFiveThousand(Clipper):
    """Writes the first 5,000 elements."""

    def hand_back(self, grad: Array, result: Any) -> Any:
        right = np.array(result)
        grad.flat[:5000] = right.flat[:5000]
        return right


@caught_by("inputs-not-mutated", in_place=False)
class OverwritesThreeDimensions(Clipper):
    """Uses a gradient of three dimensions for scratch."""

    def hand_back(self, grad: Array, result: Any) -> Any:
        right = np.array(result)
        if is_deep(grad):
            grad[...] = 0
        return right


@caught_by("inputs-not-mutated", in_place=False)
class ZerosWhatBecomesZero(Clipper):
    """Sets a gradient to zero of which the result is."""

    def hand_back(self, grad: Array, result: Any) -> Any:
        right = np.array(result)
        if not right.any():
            grad[...] = 0
        return right
