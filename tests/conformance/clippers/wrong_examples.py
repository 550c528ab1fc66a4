"""Define wrong clips per example. `wrong_averages.REUSED` combines more defects with the right clip per example."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from .steps import Array, ByExample, Gradients
from .table import caught_by


@caught_by("each-example-alone", others=True)
class OneNormForAllExamples(ByExample):
    """Scale all examples by one coefficient, that of the norm over all of them."""

    def __call__(self, grads: Gradients, *, clip_norm: float) -> Any:
        self.whole = self.compute_norm(grads, 2.0)
        return super().__call__(grads, clip_norm=clip_norm)

    def compute_norms(self, grads: Gradients, counted: Sequence[int], p: float) -> list[float]:
        return [self.whole] * len(grads)


@caught_by("one-norm-over-all", others=True)
class ClipsEachTensorAlone(ByExample):
    """Clip each gradient of an example by its own norm."""

    def compute_norms(self, grads: Gradients, counted: Sequence[int], p: float) -> list[float]:
        return [self.compute_norm([grad], p) for grad in grads]


@caught_by("sum-of-examples", others=True)
class TakesTheMean(ByExample):
    """Return the mean over the examples instead of the sum."""

    def add(self, parts: Sequence[Array]) -> Array:
        return np.asarray(super().add(parts) / parts[0].dtype.type(len(parts)), parts[0].dtype)


@caught_by("sum-of-examples", others=True)
class KeepsTheExamples(ByExample):
    """Return the clipped gradients of all examples, and not their sum."""

    def add(self, parts: Sequence[Array]) -> Array:
        return np.stack(parts)


@caught_by("sum-of-examples", "each-example-alone", others=True)
class LosesTheLastExample(ByExample):
    """Leave the last of several examples out of the sum."""

    def add(self, parts: Sequence[Array]) -> Array:
        return super().add(parts[:-1] or parts)


@caught_by("results-independent", others=True)
class SumsCannotBeWritten(ByExample):
    """Return sums that cannot be written into."""

    def add(self, parts: Sequence[Array]) -> Array:
        result = super().add(parts)
        result.setflags(write=False)
        return result


@caught_by("layers-equal", "layers-by-size", others=True)
class IgnoresTheLayers(ByExample):
    """Clip each example by one norm, although each layer has a norm of its own."""

    def clip_example(self, grads: Gradients, clip_norm: float, layers: str | None) -> Any:
        return super().clip_example(grads, clip_norm, None)


@caught_by("layers-equal", "layers-by-size", others=True)
class GivesEachLayerTheWholeThreshold(ByExample):
    """Clip each layer to the whole threshold."""

    def divide_threshold(self, share: float) -> float:
        return 1.0


@caught_by("layers-equal", "layers-by-size", others=True)
class TakesNoRootOfShares(ByExample):
    """Multiply the threshold by each layer's share itself: divide it by the number of layers, for example."""

    def divide_threshold(self, share: float) -> float:
        return share


@caught_by("layers-equal", "layers-by-size", others=True)
class ExchangesTheShares(ByExample):
    """Share the threshold by size if the shares must be equal, and equally if they must be by size."""

    def list_shares(self, grads: Gradients, layers: str) -> list[float]:
        return super().list_shares(grads, "by size" if layers == "equal" else "equal")


@caught_by("layers-by-size", others=True)
class CountsTheRowsOfLayers(ByExample):
    """Take the length of a layer's first axis for its size."""

    def list_shares(self, grads: Gradients, layers: str) -> list[float]:
        return super().list_shares(
            [grad[(slice(None), *[0] * (grad.ndim - 1))] if grad.ndim else grad for grad in grads], layers
        )
