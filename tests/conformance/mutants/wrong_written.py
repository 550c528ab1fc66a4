"""Define mutants that overwrite an input that they must keep, or do not write in place when they must."""

from __future__ import annotations

from typing import Any

import numpy as np

from .steps import Array, ClipFunction
from .table import caught_by


@caught_by("inputs-not-mutated", in_place=False)
class WritesIntoItsInput(ClipFunction):
    """Write the results into the input, although the adapter declares that the input is not changed."""

    def hand_back(self, grad: Array, result: Any) -> Any:
        grad[...] = result
        return result


class _Writes(ClipFunction):
    """Base of the mutants that write into gradients of some forms."""

    def hand_back(self, grad: Array, result: Any) -> Any:
        right = np.array(result)
        if self.is_written(grad):
            grad[...] = right
        return right

    def is_written(self, grad: Array) -> bool:
        raise NotImplementedError


@caught_by("inputs-not-mutated", in_place=False)
class WritesScalars(_Writes):
    """Write into zero-dimensional input gradients."""

    def is_written(self, grad: Array) -> bool:
        return grad.ndim == 0


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
class WritesNothing(ClipFunction):
    """Return new arrays, although the adapter declares that the input is written."""

    def hand_back(self, grad: Array, result: Any) -> Any:
        return np.array(result)
