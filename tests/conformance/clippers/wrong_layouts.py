"""Clippers that are wrong for gradients that lie in memory in one way, or are of one length or form."""

from __future__ import annotations

from typing import Any

import numpy as np

from .steps import Array, Clipper
from .table import caught_by


class _WrongForSome(Clipper):
    """Shared by those that halve some results."""

    def hand_back(self, grad: Array, result: Any) -> Any:
        return result * grad.dtype.type(0.5) if self.is_wrong(grad) else result

    def is_wrong(self, grad: Array) -> bool:
        """Whether a gradient's result is halved."""
        raise NotImplementedError


@caught_by("layout")
class WrongBackwards(_WrongForSome):
    """Is wrong where the elements lie in reverse order."""

    def is_wrong(self, grad: Array) -> bool:
        return min(grad.strides, default=0) < 0


@caught_by("layout", in_place=False)
class WrongForOneRowAsMany(_WrongForSome):
    """Is wrong where one row stands for several."""

    def is_wrong(self, grad: Array) -> bool:
        return grad.size > 1 and 0 in grad.strides


@caught_by("layout")
class WrongForStridedVectors(_WrongForSome):
    """Is wrong for vectors with gaps."""

    def is_wrong(self, grad: Array) -> bool:
        return grad.ndim == 1 and grad.size > 1 and grad.strides[0] > grad.itemsize


@caught_by("layout")
class WrongForSlices(_WrongForSome):
    """Is wrong for the middle of a larger matrix."""

    def is_wrong(self, grad: Array) -> bool:
        return grad.ndim == 2 and grad.strides[1] == grad.itemsize and grad.strides[0] > grad.shape[1] * grad.itemsize


@caught_by("layout")
class WrongForFortransCubes(_WrongForSome):
    """Is wrong for three axes that lie in reverse order."""

    def is_wrong(self, grad: Array) -> bool:
        return grad.ndim == 3 and grad.flags.f_contiguous and not grad.flags.c_contiguous


@caught_by("value.bounds", "scaled-above")
class WrongAtOneLength(_WrongForSome):
    """Is wrong for gradients of 257 elements, one more than a block."""

    def is_wrong(self, grad: Array) -> bool:
        return grad.size == 257


@caught_by("value.bounds", "scaled-above")
class ForgetsTheRestOfAVector(Clipper):
    """Clips sixteen elements at once, and leaves those that are left over alone."""

    def hand_back(self, grad: Array, result: Any) -> Any:
        whole = grad.size - grad.size % 16 if grad.size > 16 else grad.size
        return np.append(result.ravel()[:whole], grad.ravel()[whole:]).reshape(grad.shape)


@caught_by("value.bounds", "scaled-above")
class WrongForTallMatrices(_WrongForSome):
    """Is wrong for matrices with more rows than columns."""

    def is_wrong(self, grad: Array) -> bool:
        return grad.ndim == 2 and grad.shape[0] > grad.shape[1] > 1


@caught_by("value.bounds", "scaled-above")
class WrongForColumns(_WrongForSome):
    """Is wrong for matrices of one column."""

    def is_wrong(self, grad: Array) -> bool:
        return grad.ndim == 2 and grad.shape[0] > grad.shape[1] == 1


@caught_by("value.bounds", "scaled-above")
class WrongForFiveDimensions(_WrongForSome):
    """Is wrong for more dimensions than images have."""

    def is_wrong(self, grad: Array) -> bool:
        return grad.ndim > 4


@caught_by("mixed-dtypes", dtypes=("float16", "float32", "float64"))
class WrongWithoutTheMiddleDtype(Clipper):
    """Halves the results where float16 and float64 stand in one list."""

    def answer(self, grads: Any, need_clip: Any, results: Any) -> Any:
        dtypes = {grad.dtype.itemsize for grad in grads if grad is not None}
        return [one * one.dtype.type(0.5) for one in results] if {2, 8} <= dtypes else results


@caught_by("empty-tensor")
class StopsAtTheFirstEmpty(Clipper):
    """Leaves what stands after a gradient without elements alone."""

    def answer(self, grads: Any, need_clip: Any, results: Any) -> Any:
        empty = next((i for i, grad in enumerate(grads) if grad is not None and not grad.size), len(grads))
        return [*results[:empty], *grads[empty:]]


@caught_by("none-stays-none")
class StopsAfterTwoMissing(Clipper):
    """Takes two parameters in a row without a gradient for the end of the list."""

    def answer(self, grads: Any, need_clip: Any, results: Any) -> Any:
        missing = [grad is None for grad in grads]
        end = next((i for i in range(1, len(grads)) if missing[i - 1] and missing[i]), len(grads))
        return [*results[:end], *grads[end:]]
