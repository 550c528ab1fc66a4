"""Clippers by global norm that return the wrong norm."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from .steps import ByGlobalNorm, Gradients
from .table import caught_by

# The norm that is returned.


@caught_by("global-norm.returned-norm")
class NormAfterTheClip(ByGlobalNorm):
    """Returns the norm after the clip."""

    def returned_norm(self, total: float, clip_norm: float) -> Any:
        return min(total, clip_norm)


@caught_by("global-norm.returned-norm")
class ReturnsTheSquare(ByGlobalNorm):
    """Returns the norm squared."""

    def returned_norm(self, total: float, clip_norm: float) -> Any:
        return total * total


@caught_by("global-norm.returned-norm")
class ReturnsTheCoefficient(ByGlobalNorm):
    """Returns the coefficient."""

    def returned_norm(self, total: float, clip_norm: float) -> Any:
        return clip_norm / total if total else 1.0


@caught_by("global-norm.returned-norm")
class ReturnsTheThreshold(ByGlobalNorm):
    """Returns clip_norm."""

    def returned_norm(self, total: float, clip_norm: float) -> Any:
        return clip_norm


@caught_by("global-norm.returned-norm")
class ReturnsNothingBelow(ByGlobalNorm):
    """Returns 0 where nothing is clipped."""

    def returned_norm(self, total: float, clip_norm: float) -> Any:
        return total if total > clip_norm else 0.0


@caught_by("global-norm.returned-norm")
class ReturnsTheEuclideanNorm(ByGlobalNorm):
    """Clips by the order asked, and returns the Euclidean norm."""

    def norms(self, grads: Gradients, counted: Sequence[int], p: float) -> list[float]:
        self.euclidean = self.norm([grads[i] for i in counted], 2.0)
        return super().norms(grads, counted, p)

    def returned_norm(self, total: float, clip_norm: float) -> Any:
        return self.euclidean


@caught_by("global-norm.returned-norm")
class ReturnsOneNormEach(ByGlobalNorm):
    """Returns the norm once for each of two gradients."""

    def returned_norm(self, total: float, clip_norm: float) -> Any:
        return np.array([total, total])


@caught_by("global-norm.returned-norm")
class ReturnsTheNormWithASign(ByGlobalNorm):
    """Returns minus the norm."""

    def returned_norm(self, total: float, clip_norm: float) -> Any:
        return -total


@caught_by("global-norm.returned-norm")
class ReturnsWholeNumbers(ByGlobalNorm):
    """Returns the norm cut to an integer."""

    def returned_norm(self, total: float, clip_norm: float) -> Any:
        return int(total) if math.isfinite(total) else total


@caught_by("global-norm.returned-norm")
class RaisesWhereItClips(ByGlobalNorm):
    """Raises where the norm is above the threshold, and takes no option for errors."""

    def __call__(self, grads: Gradients, *, clip_norm: float, need_clip: Sequence[bool]) -> Any:  # type: ignore[override]
        """Clip as the others do, where nothing is raised."""
        return super().__call__(grads, clip_norm=clip_norm, need_clip=need_clip)

    def returned_norm(self, total: float, clip_norm: float) -> Any:
        if total > clip_norm:
            message = f"the norm is {total}"
            raise RuntimeError(message)
        return total


# Where it is not finite.


@caught_by("global-norm.returned-norm-nonfinite")
class ReturnsZeroForNan(ByGlobalNorm):
    """Returns 0 where the norm is NaN."""

    def returned_norm(self, total: float, clip_norm: float) -> Any:
        return 0.0 if math.isnan(total) else total


@caught_by("global-norm.returned-norm-nonfinite")
class ReturnsInfinityForNan(ByGlobalNorm):
    """Returns infinity where the norm is NaN."""

    def returned_norm(self, total: float, clip_norm: float) -> Any:
        return math.inf if math.isnan(total) else total


@caught_by("global-norm.returned-norm-nonfinite")
class ReturnsNanForInfinity(ByGlobalNorm):
    """Returns NaN where the norm is infinite."""

    def returned_norm(self, total: float, clip_norm: float) -> Any:
        return total if math.isfinite(total) else math.nan


@caught_by("global-norm.returned-norm-nonfinite")
class ReturnsTheLargestNumber(ByGlobalNorm):
    """Returns the largest number where the norm is infinite."""

    def returned_norm(self, total: float, clip_norm: float) -> Any:
        return min(total, float(np.finfo(np.float32).max))


@caught_by("global-norm.returned-norm-nonfinite")
class RaisesWithoutTheFlag(ByGlobalNorm):
    """Raises where the norm is not finite though no one asked for it."""

    def returned_norm(self, total: float, clip_norm: float) -> Any:
        if not math.isfinite(total):
            message = "the norm is not finite"
            raise RuntimeError(message)
        return total
