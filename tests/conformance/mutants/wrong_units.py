"""Define wrong unitwise clips. `wrong_averages.REUSED` combines more defects with the right unitwise clip."""

from __future__ import annotations

from typing import Any

import numpy as np

from .steps import Array, ByUnit
from .table import caught_by


@caught_by("least-parameter-norm", others=True)
class AddsEps(ByUnit):
    """Add `eps` to the norm of the parameter."""

    def measure(self, weight: Array) -> float:
        return self.compute_norm([weight], 2.0) + self.least


@caught_by("scaled-above", others=True)
class AveragesTheWeights(ByUnit):
    """Take the root mean square of the parameter, and the norm of the gradient."""

    def measure(self, weight: Array) -> float:
        return max(self.compute_norm([weight], 2.0) / max(weight.size, 1) ** 0.5, self.least)


@caught_by("overflow-of-squares", "underflow-of-squares", others=True)
class SquaresWeightsInTheDtype(ByUnit):
    """Square the elements of the parameter in their dtype."""

    def measure(self, weight: Array) -> float:
        with np.errstate(all="ignore"):
            return max(float(np.sqrt(np.sum(weight * weight))), self.least)


@caught_by("each-unit-alone", others=True)
class ColumnIsAVector(ByUnit):
    """Take a matrix with one input for a vector, which is one unit."""

    def split(self, grad: Array | None) -> list[Any]:
        return [grad] if grad is not None and np.squeeze(grad).ndim < 2 else super().split(grad)

    def join_units(self, grad: Array | None, units: list[Any]) -> Any:
        return units[0] if len(units) == 1 else super().join_units(grad, units)


@caught_by("vector-is-one-unit", others=True)
class ElementsOfVectorsAreUnits(ByUnit):
    """Clip each element of a vector by itself."""

    def split(self, grad: Array | None) -> list[Any]:
        return super().split(grad) if grad is None or grad.ndim != 1 else [grad[i : i + 1] for i in range(len(grad))]

    def join_units(self, grad: Array | None, units: list[Any]) -> Any:
        return super().join_units(grad, units) if grad is None or grad.ndim != 1 else np.concatenate(units)


@caught_by("in-place-written", in_place=True, others=True)
class ReturnsNewTensors(ByUnit):
    """Return new tensors although the results must be written in place."""

    def hand_back(self, grad: Array, result: Any) -> Any:
        return np.array(result)


@caught_by("results-independent", others=True)
class TensorsCannotBeWritten(ByUnit):
    """Return tensors that cannot be written into."""

    def join_units(self, grad: Array | None, units: list[Any]) -> Any:
        result = super().join_units(grad, units)
        if grad is not None:
            result.setflags(write=False)
        return result
