"""Define mutants that are wrong for one memory layout, one length or one form of gradient."""

from __future__ import annotations

from typing import Any

from .steps import Array, ClipFunction
from .table import caught_by


class _WrongForSome(ClipFunction):
    """Base of the mutants that halve some results."""

    def hand_back(self, grad: Array, result: Any) -> Any:
        return result * grad.dtype.type(0.5) if self.is_wrong(grad) else result

    def is_wrong(self, grad: Array) -> bool:
        """Tell whether the result of a gradient is halved."""
        raise NotImplementedError


@caught_by("layout")
class WrongBackwards(_WrongForSome):
    """Halve the result of a gradient with negative strides."""

    def is_wrong(self, grad: Array) -> bool:
        return min(grad.strides, default=0) < 0


@caught_by("layout", in_place=False)
class WrongForOneRowAsMany(_WrongForSome):
    """Halve the result of a broadcast gradient, whose rows share memory."""

    def is_wrong(self, grad: Array) -> bool:
        return grad.size > 1 and 0 in grad.strides


@caught_by("layout")
class WrongForStridedVectors(_WrongForSome):
    """Halve the result of a vector with gaps between its elements."""

    def is_wrong(self, grad: Array) -> bool:
        return grad.ndim == 1 and grad.size > 1 and grad.strides[0] > grad.itemsize


@caught_by("layout")
class WrongForSlices(_WrongForSome):
    """Halve the result of a matrix that is a slice of a wider one."""

    def is_wrong(self, grad: Array) -> bool:
        return grad.ndim == 2 and grad.strides[1] == grad.itemsize and grad.strides[0] > grad.shape[1] * grad.itemsize


@caught_by("layout")
class WrongForFortransCubes(_WrongForSome):
    """Halve the result of a three-dimensional gradient in Fortran order."""

    def is_wrong(self, grad: Array) -> bool:
        return grad.ndim == 3 and grad.flags.f_contiguous and not grad.flags.c_contiguous


@caught_by("value.bounds", "scaled-above")
class WrongAtOneLength(_WrongForSome):
    """Halve the result of a gradient of 257 elements, one more than a block."""

    def is_wrong(self, grad: Array) -> bool:
        return grad.size == 257


@caught_by("value.bounds", "scaled-above")
class WrongForColumns(_WrongForSome):
    """Halve the result of a matrix with a single column."""

    def is_wrong(self, grad: Array) -> bool:
        return grad.ndim == 2 and grad.shape[0] > grad.shape[1] == 1


@caught_by("mixed-dtypes", dtypes=("float16", "float32", "float64"))
class WrongWithoutTheMiddleDtype(ClipFunction):
    """Halve the results if the list holds both float16 and float64."""

    def answer(self, grads: Any, need_clip: Any, results: Any) -> Any:
        dtypes = {grad.dtype.itemsize for grad in grads if grad is not None}
        return [one * one.dtype.type(0.5) for one in results] if {2, 8} <= dtypes else results


@caught_by("empty-tensor")
class StopsAtTheFirstEmpty(ClipFunction):
    """Stop clipping at the first gradient without elements."""

    def answer(self, grads: Any, need_clip: Any, results: Any) -> Any:
        empty = next((i for i, grad in enumerate(grads) if grad is not None and not grad.size), len(grads))
        return [*results[:empty], *grads[empty:]]


@caught_by("none-stays-none")
class StopsAfterTwoMissing(ClipFunction):
    """Stop clipping after two missing gradients in a row."""

    def answer(self, grads: Any, need_clip: Any, results: Any) -> Any:
        missing = [grad is None for grad in grads]
        end = next((i for i in range(1, len(grads)) if missing[i - 1] and missing[i]), len(grads))
        return [*results[:end], *grads[end:]]
