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
class KeepsTheExamples(ByExample):
    """Return the clipped gradients of all examples, and not their sum."""

    def add(self, parts: Sequence[Array]) -> Array:
        return np.stack(parts)


@caught_by("results-independent", others=True)
class SumsCannotBeWritten(ByExample):
    """Return sums that cannot be written into."""

    def add(self, parts: Sequence[Array]) -> Array:
        result = super().add(parts)
        result.setflags(write=False)
        return result


@caught_by("layers-equal", "layers-by-size", others=True)
class ExchangesTheShares(ByExample):
    """Share the threshold by size if the shares must be equal, and equally if they must be by size."""

    def list_shares(self, grads: Gradients, layers: str) -> list[float]:
        return super().list_shares(grads, "by size" if layers == "equal" else "equal")
