"""Define wrong unitwise clips. `wrong_averages.REUSED` combines more defects with the right unitwise clip."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from .steps import Array, ByUnit, Gradients
from .table import caught_by


@caught_by("scaled-above", "identity-below", "each-unit-alone", others=True)
class ForgetsTheParameter(ByUnit):
    """Compare the norm of the gradient itself with the factor."""

    def measure(self, weight: Array) -> float:
        return 1.0


@caught_by("least-parameter-norm", others=True)
class ForgetsEps(ByUnit):
    """Stop the gradient of a parameter of zeros."""

    def measure(self, weight: Array) -> float:
        return self.compute_norm([weight], 2.0)


@caught_by("least-parameter-norm", others=True)
class AddsEps(ByUnit):
    """Add `eps` to the norm of the parameter."""

    def measure(self, weight: Array) -> float:
        return self.compute_norm([weight], 2.0) + self.least


@caught_by("least-parameter-norm", others=True)
class LimitIsAtLeastEps(ByUnit):
    """Compare `eps` with the limit instead of the norm of the parameter."""

    def __call__(self, grads: Gradients, *, clip_factor: float, **keywords: Any) -> Any:
        self.factor = clip_factor if 0 < clip_factor < np.inf else 1.0
        return super().__call__(grads, clip_factor=clip_factor, **keywords)

    def measure(self, weight: Array) -> float:
        return max(self.factor * self.compute_norm([weight], 2.0), self.least) / self.factor


@caught_by("scaled-above", others=True)
class TakesTheSquare(ByUnit):
    """Take the squared norm of the parameter."""

    def measure(self, weight: Array) -> float:
        return super().measure(weight) ** 2


@caught_by("scaled-above", others=True)
class TakesTheLargestWeight(ByUnit):
    """Take the largest magnitude of the parameter."""

    def measure(self, weight: Array) -> float:
        return max(float(np.max(np.abs(weight), initial=0.0)), self.least)


@caught_by("scaled-above", others=True)
class AveragesTheWeights(ByUnit):
    """Take the root mean square of the parameter, and the norm of the gradient."""

    def measure(self, weight: Array) -> float:
        return max(self.compute_norm([weight], 2.0) / max(weight.size, 1) ** 0.5, self.least)


@caught_by("scaled-above", "identity-below", others=True)
class DividesTheOtherWay(ByUnit):
    """Divide the norm of the parameter by that of the gradient."""

    def divide(self, norm: float, weight: float) -> float:
        return super().divide(weight, norm)


@caught_by("overflow-of-squares", "underflow-of-squares", others=True)
class SquaresWeightsInTheDtype(ByUnit):
    """Square the elements of the parameter in their dtype."""

    def measure(self, weight: Array) -> float:
        with np.errstate(all="ignore"):
            return max(float(np.sqrt(np.sum(weight * weight))), self.least)


@caught_by("each-unit-alone", others=True)
class WholeTensorIsOneUnit(ByUnit):
    """Clip each tensor by one norm."""

    def split(self, grad: Array | None) -> list[Any]:
        return [grad]

    def join_units(self, grad: Array | None, units: list[Any]) -> Any:
        return units[0]


@caught_by("each-unit-alone", others=True)
class UnitsOfTheOtherAxis(ByUnit):
    """Take the last axis for that of the units."""

    def split(self, grad: Array | None) -> list[Any]:
        return [grad] if grad is None or grad.ndim < 2 else list(np.moveaxis(grad, -1, 0))

    def join_units(self, grad: Array | None, units: list[Any]) -> Any:
        return units[0] if grad is None or grad.ndim < 2 else np.stack(units, axis=-1)


@caught_by("each-unit-alone", others=True)
class OnlyMatricesHaveUnits(ByUnit):
    """Take a filter with several inputs for one unit for each of its rows."""

    def split(self, grad: Array | None) -> list[Any]:
        return super().split(grad) if grad is None or grad.ndim < 3 else list(grad.reshape(-1, grad.shape[-1]))

    def join_units(self, grad: Array | None, units: list[Any]) -> Any:
        return super().join_units(grad, units) if grad is None or grad.ndim < 3 else np.stack(units).reshape(grad.shape)


@caught_by("each-unit-alone", others=True)
class ColumnIsAVector(ByUnit):
    """Take a matrix with one input for a vector, which is one unit."""

    def split(self, grad: Array | None) -> list[Any]:
        return [grad] if grad is not None and np.squeeze(grad).ndim < 2 else super().split(grad)

    def join_units(self, grad: Array | None, units: list[Any]) -> Any:
        return units[0] if len(units) == 1 else super().join_units(grad, units)


@caught_by("each-unit-alone", others=True)
class OneParameterForAllUnits(ByUnit):
    """Take the norm of the whole parameter for each unit."""

    def pair(self, grad: Array | None, weight: Array | None) -> list[Any]:
        return [weight] * len(super().pair(grad, weight))


@caught_by("each-unit-alone", others=True)
class FirstParameterForAll(ByUnit):
    """Take the parameter of the first unit for all units of a call."""

    def compute_norms(self, grads: Gradients, counted: Sequence[int], p: float) -> list[float]:
        self.weights = [self.weights[0]] * len(grads)
        return super().compute_norms(grads, counted, p)


@caught_by("vector-is-one-unit", others=True)
class ElementsOfVectorsAreUnits(ByUnit):
    """Clip each element of a vector by itself."""

    def split(self, grad: Array | None) -> list[Any]:
        return super().split(grad) if grad is None or grad.ndim != 1 else [grad[i : i + 1] for i in range(len(grad))]

    def join_units(self, grad: Array | None, units: list[Any]) -> Any:
        return super().join_units(grad, units) if grad is None or grad.ndim != 1 else np.concatenate(units)


@caught_by("surroundings-kept", others=True)
class WritesIntoParameters(ByUnit):
    """Replace small parameters by `eps`, where they are."""

    def measure(self, weight: Array) -> float:
        weight[weight == 0] = self.least
        return super().measure(weight)


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
