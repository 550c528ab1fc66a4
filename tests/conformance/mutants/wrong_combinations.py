"""Define mutants whose defect shows only if several circumstances occur together."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from .steps import Array, ByAverage, ByExample, ByUnit, ClipFunction, Gradients
from .table import caught_by


@caught_by("combinations", dtypes=("float32", "float64"))
class LosesTheEndOfLongExcluded(ClipFunction):
    """Zero the last element of an excluded float64 gradient of more than 512 elements."""

    def leave(self, grad: Array) -> Any:
        if grad.size <= 512 or grad.dtype != np.float64:
            return grad
        copy = grad.copy()
        copy.reshape(-1)[-1] = 0
        return copy


@caught_by("combinations")
class KeepsTheLastOfOddMatrices(ClipFunction):
    """Leave the last element unclipped if the gradient is a long matrix of odd width and is not contiguous."""

    def hand_back(self, grad: Array, result: Any) -> Any:
        if grad.ndim != 2 or grad.shape[-1] % 2 == 0 or grad.size < 64 or grad.flags.c_contiguous:
            return result
        copy = result.copy()
        copy[-1, -1] = grad[-1, -1]
        return copy


@caught_by("combinations-extreme")
class ZeroesWhatOverflows(ClipFunction):
    """Return zeros if the squares of the elements overflow and the gradient has several axes."""

    def hand_back(self, grad: Array, result: Any) -> Any:
        largest = np.max(np.abs(grad), initial=0.0)
        if grad.ndim < 2 or not np.isfinite(largest) or float(largest) < float(np.finfo(grad.dtype).max) ** 0.5:
            return result
        return np.zeros_like(result)


@caught_by("combinations", dtypes=("float32", "float64"))
class WritesWholeVectors(ClipFunction):
    """Zero the bytes behind a gradient that lies within a buffer, up to the end of a vector of 16 bytes."""

    def hand_back(self, grad: Array, result: Any) -> Any:
        base = grad.base
        if grad.flags.c_contiguous and base is not None and base.dtype == np.uint8:
            end = grad.ctypes.data + grad.nbytes - base.ctypes.data
            base[end : end + -grad.nbytes % 16] = 0
        return result


# Averages.


@caught_by("combinations", dtypes=("float32", "float64"), others=True)
class RoundsLongExcluded(ByAverage):
    """Return an excluded float64 gradient of more than 32 elements with the digits of float32."""

    def leave(self, grad: Array) -> Any:
        if grad.size <= 32 or grad.dtype != np.float64:
            return grad
        with np.errstate(all="ignore"):
            return grad.astype(np.float32).astype(np.float64)


@caught_by("combinations", others=True)
class CountsPaddedRows(ByAverage):
    """Count one element more in each row of a matrix of odd width that is not contiguous."""

    def compute_norms(self, grads: Gradients, counted: Sequence[int], p: float) -> list[float]:
        norms = super().compute_norms(grads, counted, p)
        for i in counted:
            grad = grads[i]
            if grad.ndim == 2 and grad.shape[1] % 2 and not grad.flags.c_contiguous:
                norms[i] = self.average(self.compute_norm([grad], p), grad.size + grad.shape[0])
        return norms


@caught_by("combinations", others=True)
class CountsIn16Bits(ByAverage):
    """Count the elements of a gradient in 16 bits."""

    def average(self, norm: float, elements: int) -> float:
        return super().average(norm, elements % 65536)


@caught_by("combinations", others=True)
class AveragesByTheFirstBeyondTen(ByAverage):
    """Divide by the number of elements of the first gradient, from the eleventh gradient on."""

    def compute_norms(self, grads: Gradients, counted: Sequence[int], p: float) -> list[float]:
        norms = super().compute_norms(grads, counted, p)
        for i in counted:
            if i > 10 and grads[0] is not None:
                norms[i] = self.average(self.compute_norm([grads[i]], p), grads[0].size)
        return norms


@caught_by("combinations-extreme", others=True)
class ZeroesAveragesThatOverflow(ByAverage):
    """Return zeros if the squares of the elements overflow and the gradient has several axes."""

    def hand_back(self, grad: Array, result: Any) -> Any:
        largest = np.max(np.abs(grad), initial=0.0)
        if grad.ndim < 2 or not np.isfinite(largest) or float(largest) < float(np.finfo(grad.dtype).max) ** 0.5:
            return result
        return np.zeros_like(result)


# Examples.


@caught_by("combinations", others=True)
class LosesExamplesBeyondSixteen(ByExample):
    """Leave all examples after the sixteenth out of the sum."""

    def add(self, parts: Sequence[Array]) -> Array:
        return super().add(parts[:16])


@caught_by("combinations", others=True)
class SharesAmongFourLayers(ByExample):
    """Divide the threshold equally among at most four layers."""

    def list_shares(self, grads: Gradients, layers: str) -> list[float]:
        shares = super().list_shares(grads, layers)
        return shares if layers != "equal" or len(grads) <= 4 else [0.25] * len(grads)


@caught_by("combinations", dtypes=("float32", "float64"), others=True)
class AddsLongSumsInFloat32(ByExample):
    """Add examples of more than 32 elements in float32."""

    def add(self, parts: Sequence[Array]) -> Array:
        if parts[0].size <= 32:
            return super().add(parts)
        with np.errstate(all="ignore"):
            return super().add([part.astype(np.float32) for part in parts]).astype(parts[0].dtype)


@caught_by("combinations", others=True)
class ReadsTransposedExamplesAsTheyLie(ByExample):
    """Read the elements of matrices column by column, if they lie so, and take them for rows."""

    def add(self, parts: Sequence[Array]) -> Array:
        total = super().add(parts)
        turned = parts[0].ndim > 1 and any(part.strides[0] == part.itemsize < part.strides[-1] for part in parts)
        return total.ravel(order="F").reshape(total.shape) if turned else total


@caught_by("combinations-extreme", others=True)
class ZeroesExamplesThatOverflow(ByExample):
    """Return zeros if the squares of an example's elements overflow and the gradient has several axes."""

    def hand_back(self, grad: Array, result: Any) -> Any:
        largest = np.max(np.abs(grad), initial=0.0)
        if grad.ndim < 2 or not np.isfinite(largest) or float(largest) < float(np.finfo(grad.dtype).max) ** 0.5:
            return result
        return np.zeros_like(result)


# Units.


@caught_by("combinations", others=True)
class TakesColumnsOfLargeSquares(ByUnit):
    """Take the columns of a square matrix of more than three rows for its units."""

    def split(self, grad: Array | None) -> list[Any]:
        if grad is None or grad.ndim != 2 or grad.shape[0] != grad.shape[1] or grad.shape[0] <= 3:
            return super().split(grad)
        return list(grad.T)

    def join_units(self, grad: Array | None, units: list[Any]) -> Any:
        joined = super().join_units(grad, units)
        if grad is None or grad.ndim != 2 or grad.shape[0] != grad.shape[1] or grad.shape[0] <= 3:
            return joined
        return joined.T


@caught_by("combinations", others=True)
class LeavesUnitsBeyondEight(ByUnit):
    """Leave the units after the eighth of a gradient as they are."""

    def join_units(self, grad: Array | None, units: list[Any]) -> Any:
        if grad is None or grad.ndim < 2:
            return super().join_units(grad, units)
        return super().join_units(grad, [*units[:8], *grad[8:]])


@caught_by("combinations", others=True)
class TakesTheParameterOfTheFirst(ByUnit):
    """Take the parameter of the first unit, from the fifth unit of all on."""

    def compute_norms(self, grads: Gradients, counted: Sequence[int], p: float) -> list[float]:
        norms = super().compute_norms(grads, counted, p)
        weight = self.measure(self.weights[0]) if self.weights and self.weights[0] is not None else 1.0
        return [
            self.divide(self.compute_norm([grads[i]], p), weight) if i in counted and i >= 4 else norm
            for i, norm in enumerate(norms)
        ]


@caught_by("combinations", others=True)
class LosesTheEndOfLongUnits(ByUnit):
    """Leave the last element of an odd number of elements unclipped, if there are more than 32."""

    def hand_back(self, grad: Array, result: Any) -> Any:
        if grad.size <= 32 or grad.size % 2 == 0 or result is grad:
            return result
        copy = result.copy()
        copy.reshape(-1)[-1] = grad.reshape(-1)[-1]
        return copy


@caught_by("combinations-extreme", others=True)
class ZeroesUnitsThatOverflow(ByUnit):
    """Return zeros for a unit of more than four elements whose squares overflow."""

    def hand_back(self, grad: Array, result: Any) -> Any:
        largest = np.max(np.abs(grad), initial=0.0)
        if grad.size <= 4 or not np.isfinite(largest) or float(largest) < float(np.finfo(grad.dtype).max) ** 0.5:
            return result
        return np.zeros_like(result)
