"""Clippers that spoil what was passed, or do not write into it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from .steps import Array, Clipper, Gradients
from .table import caught_by


@caught_by("inputs-not-mutated", in_place=False)
class WritesIntoItsInput(Clipper):
    """Works in place, and says that it does not."""

    def hand_back(self, grad: Array, result: Any) -> Any:
        grad[...] = result
        return result


@caught_by("inputs-not-mutated", in_place=False)
class LeavesScratchBehind(Clipper):
    """Uses its input for scratch, and returns a right answer of its own."""

    def hand_back(self, grad: Array, result: Any) -> Any:
        right = np.array(result)
        np.square(grad, out=grad)
        return right


@caught_by("inputs-not-mutated", in_place=False)
class ZeroesItsInput(Clipper):
    """Sets the gradients to zero once they are clipped."""

    def hand_back(self, grad: Array, result: Any) -> Any:
        right = np.array(result)
        grad[...] = 0
        return right


@caught_by("inputs-not-mutated", in_place=False)
class WritesTheLastOnly(Clipper):
    """Writes the last gradient's result into its input."""

    def answer(self, grads: Gradients, need_clip: Sequence[bool], results: Gradients) -> Any:
        if results and results[-1] is not None:
            grads[-1][...] = np.negative(results[-1])
            results[-1] = np.negative(grads[-1])
        return results


class _Writes(Clipper):
    """Shared by those that write into some gradients, which of them depends on their form."""

    def hand_back(self, grad: Array, result: Any) -> Any:
        right = np.array(result)
        if self.is_written(grad):
            grad[...] = right
        return right

    def is_written(self, grad: Array) -> bool:
        raise NotImplementedError


@caught_by("inputs-not-mutated", in_place=False)
class WritesMatrices(_Writes):
    """Uses a matrix that lies row by row for its results."""

    def is_written(self, grad: Array) -> bool:
        return grad.ndim > 1 and grad.flags.c_contiguous


@caught_by("inputs-not-mutated", in_place=False)
class WritesScalars(_Writes):
    """Writes into what has no dimensions."""

    def is_written(self, grad: Array) -> bool:
        return grad.ndim == 0


@caught_by("inputs-not-mutated", in_place=False)
class WritesWhatIsAlone(Clipper):
    """Saves the copy where there is one gradient only."""

    def answer(self, grads: Gradients, need_clip: Sequence[bool], results: Gradients) -> Any:
        if len(grads) == 1 and results[0] is not None:
            grads[0][...] = results[0]
        return results


@caught_by("value.inputs-not-mutated", in_place=False)
class WritesNonfinite(_Writes):
    """Writes into a gradient that holds a NaN."""

    def is_written(self, grad: Array) -> bool:
        return bool(np.isnan(grad).any())


@caught_by("in-place-written", in_place=True)
class WritesContiguousOnly(_Writes):
    """Writes into what lies in one piece, and returns the rest."""

    def is_written(self, grad: Array) -> bool:
        return bool(grad.flags.c_contiguous)


@caught_by("in-place-written", in_place=True)
class WritesThroughRavel(Clipper):
    """Writes into the flattened gradient, which is a copy where it does not lie in one piece."""

    def hand_back(self, grad: Array, result: Any) -> Any:
        right = np.array(result)
        grad.ravel()[...] = right.ravel()
        return right


@caught_by("in-place-written", in_place=True)
class DoesNotWriteScalars(_Writes):
    """Returns what has no dimensions, where an operator gives a number and no array."""

    def is_written(self, grad: Array) -> bool:
        return grad.ndim > 0


@caught_by("in-place-written", in_place=True)
class DoesNotWriteLongOnes(_Writes):
    """Writes into up to 4,096 elements."""

    def is_written(self, grad: Array) -> bool:
        return grad.size <= 4096


@caught_by("in-place-written", in_place=True)
class WritesNothing(Clipper):
    """Declares to work in place, and returns new arrays."""

    def hand_back(self, grad: Array, result: Any) -> Any:
        return np.array(result)


@caught_by("in-place-written", in_place=True)
class WritesTheFirstOnly(Clipper):
    """Writes the first gradient's result alone."""

    def answer(self, grads: Gradients, need_clip: Sequence[bool], results: Gradients) -> Any:
        if results and results[0] is not None:
            grads[0][...] = results[0]
        return results


@caught_by("in-place-written", in_place=True)
class WritesIntoCopies(Clipper):
    """Writes the results into copies of what it was given."""

    def clip_all(self, grads: Gradients, need_clip: Sequence[bool], clip_one: Any) -> Any:
        copies = [None if grad is None else grad.copy() for grad in grads]
        for copy, result in zip(copies, super().clip_all(grads, need_clip, clip_one), strict=True):
            if copy is not None:
                copy[...] = result
        return copies


@caught_by("in-place-written", in_place=True)
class WritesSomethingElse(ZeroesItsInput):
    """Returns the right results, and writes zeros."""
