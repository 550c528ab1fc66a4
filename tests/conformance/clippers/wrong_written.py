"""Define clippers that overwrite an input that they must keep, or do not write in place when they must."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from .steps import Array, Clipper, Gradients
from .table import caught_by


@caught_by("inputs-not-mutated", in_place=False)
class WritesIntoItsInput(Clipper):
    """Write the results into the input, although the adapter declares that the input is not changed."""

    def hand_back(self, grad: Array, result: Any) -> Any:
        grad[...] = result
        return result


@caught_by("inputs-not-mutated", in_place=False)
class LeavesScratchBehind(Clipper):
    """Use the input as scratch memory."""

    def hand_back(self, grad: Array, result: Any) -> Any:
        right = np.array(result)
        np.square(grad, out=grad)
        return right


@caught_by("inputs-not-mutated", in_place=False)
class ZeroesItsInput(Clipper):
    """Overwrite the input with zeros."""

    def hand_back(self, grad: Array, result: Any) -> Any:
        right = np.array(result)
        grad[...] = 0
        return right


@caught_by("inputs-not-mutated", in_place=False)
class WritesTheLastOnly(Clipper):
    """Write into the last input gradient."""

    def answer(self, grads: Gradients, need_clip: Sequence[bool], results: Gradients) -> Any:
        if results and results[-1] is not None:
            grads[-1][...] = np.negative(results[-1])
            results[-1] = np.negative(grads[-1])
        return results


class _Writes(Clipper):
    """Base of the clippers that write into gradients of some forms."""

    def hand_back(self, grad: Array, result: Any) -> Any:
        right = np.array(result)
        if self.is_written(grad):
            grad[...] = right
        return right

    def is_written(self, grad: Array) -> bool:
        raise NotImplementedError


@caught_by("inputs-not-mutated", in_place=False)
class WritesMatrices(_Writes):
    """Write into contiguous input gradients of two or more dimensions."""

    def is_written(self, grad: Array) -> bool:
        return grad.ndim > 1 and grad.flags.c_contiguous


@caught_by("inputs-not-mutated", in_place=False)
class WritesScalars(_Writes):
    """Write into zero-dimensional input gradients."""

    def is_written(self, grad: Array) -> bool:
        return grad.ndim == 0


@caught_by("inputs-not-mutated", in_place=False)
class WritesWhatIsAlone(Clipper):
    """Write into the input if there is a single gradient."""

    def answer(self, grads: Gradients, need_clip: Sequence[bool], results: Gradients) -> Any:
        if len(grads) == 1 and results[0] is not None:
            grads[0][...] = results[0]
        return results


@caught_by("value.inputs-not-mutated", in_place=False)
class WritesNonfinite(_Writes):
    """Write into input gradients that hold NaN."""

    def is_written(self, grad: Array) -> bool:
        return bool(np.isnan(grad).any())


@caught_by("in-place-written", in_place=True)
class WritesContiguousOnly(_Writes):
    """Do not write into gradients that are not contiguous."""

    def is_written(self, grad: Array) -> bool:
        return bool(grad.flags.c_contiguous)


@caught_by("in-place-written", in_place=True)
class WritesThroughRavel(Clipper):
    """Write into the flattened gradient, which is a copy if it is not contiguous."""

    def hand_back(self, grad: Array, result: Any) -> Any:
        right = np.array(result)
        grad.ravel()[...] = right.ravel()
        return right


@caught_by("in-place-written", in_place=True)
class DoesNotWriteScalars(_Writes):
    """Do not write into zero-dimensional gradients."""

    def is_written(self, grad: Array) -> bool:
        return grad.ndim > 0


@caught_by("in-place-written", in_place=True)
class DoesNotWriteLongOnes(_Writes):
    """Do not write into gradients of more than 4,096 elements."""

    def is_written(self, grad: Array) -> bool:
        return grad.size <= 4096


@caught_by("in-place-written", in_place=True)
class WritesNothing(Clipper):
    """Return new arrays, although the adapter declares that the input is written."""

    def hand_back(self, grad: Array, result: Any) -> Any:
        return np.array(result)


@caught_by("in-place-written", in_place=True)
class WritesTheFirstOnly(Clipper):
    """Write only into the first gradient."""

    def answer(self, grads: Gradients, need_clip: Sequence[bool], results: Gradients) -> Any:
        if results and results[0] is not None:
            grads[0][...] = results[0]
        return results


@caught_by("in-place-written", in_place=True)
class WritesIntoCopies(Clipper):
    """Write the results into copies of the gradients."""

    def clip_all(self, grads: Gradients, need_clip: Sequence[bool], clip_one: Any) -> Any:
        copies = [None if grad is None else grad.copy() for grad in grads]
        for copy, result in zip(copies, super().clip_all(grads, need_clip, clip_one), strict=True):
            if copy is not None:
                copy[...] = result
        return copies


@caught_by("in-place-written", in_place=True)
class WritesSomethingElse(ZeroesItsInput):
    """Return the right results but write zeros."""
