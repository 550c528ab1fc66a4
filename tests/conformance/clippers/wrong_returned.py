"""Define clippers by global norm that return the wrong norm."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from .steps import ByGlobalNorm, Gradients
from .table import caught_by

# Finite norms.


@caught_by("global-norm.returned-norm")
class NormAfterTheClip(ByGlobalNorm):
    """Return the norm after clipping."""

    def report_norm(self, total: float, clip_norm: float) -> Any:
        return min(total, clip_norm)


@caught_by("global-norm.returned-norm")
class ReturnsTheSquare(ByGlobalNorm):
    """Return the square of the norm."""

    def report_norm(self, total: float, clip_norm: float) -> Any:
        return total * total


@caught_by("global-norm.returned-norm")
class ReturnsTheCoefficient(ByGlobalNorm):
    """Return the coefficient instead of the norm."""

    def report_norm(self, total: float, clip_norm: float) -> Any:
        return clip_norm / total if total else 1.0


@caught_by("global-norm.returned-norm")
class ReturnsTheThreshold(ByGlobalNorm):
    """Return clip_norm instead of the norm."""

    def report_norm(self, total: float, clip_norm: float) -> Any:
        return clip_norm


@caught_by("global-norm.returned-norm")
class ReturnsNothingBelow(ByGlobalNorm):
    """Return a norm of 0 if nothing is clipped."""

    def report_norm(self, total: float, clip_norm: float) -> Any:
        return total if total > clip_norm else 0.0


@caught_by("global-norm.returned-norm")
class ReturnsTheEuclideanNorm(ByGlobalNorm):
    """Return the Euclidean norm, whatever `norm_type` says."""

    def compute_norms(self, grads: Gradients, counted: Sequence[int], p: float) -> list[float]:
        self.euclidean = self.compute_norm([grads[i] for i in counted], 2.0)
        return super().compute_norms(grads, counted, p)

    def report_norm(self, total: float, clip_norm: float) -> Any:
        return self.euclidean


@caught_by("global-norm.returned-norm")
class ReturnsOneNormEach(ByGlobalNorm):
    """Return an array that holds the norm twice."""

    def report_norm(self, total: float, clip_norm: float) -> Any:
        return np.array([total, total])


@caught_by("global-norm.returned-norm")
class ReturnsTheNormWithASign(ByGlobalNorm):
    """Return minus the norm."""

    def report_norm(self, total: float, clip_norm: float) -> Any:
        return -total


@caught_by("global-norm.returned-norm")
class ReturnsWholeNumbers(ByGlobalNorm):
    """Round the returned norm down to an integer."""

    def report_norm(self, total: float, clip_norm: float) -> Any:
        return int(total) if math.isfinite(total) else total


@caught_by("global-norm.returned-norm")
class RaisesWhereItClips(ByGlobalNorm):
    """Raise if the norm is above the threshold."""

    def __call__(self, grads: Gradients, *, clip_norm: float, need_clip: Sequence[bool]) -> Any:  # type: ignore[override]
        """Clip without the options for the order of the norm and for errors."""
        return super().__call__(grads, clip_norm=clip_norm, need_clip=need_clip)

    def report_norm(self, total: float, clip_norm: float) -> Any:
        if total > clip_norm:
            message = f"the norm is {total}"
            raise RuntimeError(message)
        return total


# Norms that are NaN or infinite.


@caught_by("global-norm.returned-norm-nonfinite")
class ReturnsZeroForNan(ByGlobalNorm):
    """Return 0 if the norm is NaN."""

    def report_norm(self, total: float, clip_norm: float) -> Any:
        return 0.0 if math.isnan(total) else total


@caught_by("global-norm.returned-norm-nonfinite")
class ReturnsInfinityForNan(ByGlobalNorm):
    """Return infinity if the norm is NaN."""

    def report_norm(self, total: float, clip_norm: float) -> Any:
        return math.inf if math.isnan(total) else total


@caught_by("global-norm.returned-norm-nonfinite")
class ReturnsNanForInfinity(ByGlobalNorm):
    """Return NaN if the norm is infinite."""

    def report_norm(self, total: float, clip_norm: float) -> Any:
        return total if math.isfinite(total) else math.nan


@caught_by("global-norm.returned-norm-nonfinite")
class ReturnsTheLargestNumber(ByGlobalNorm):
    """Return the largest float32 number if the norm is infinite."""

    def report_norm(self, total: float, clip_norm: float) -> Any:
        return min(total, float(np.finfo(np.float32).max))


@caught_by("global-norm.returned-norm-nonfinite")
class RaisesWithoutTheFlag(ByGlobalNorm):
    """Raise for a nonfinite norm even if `error_if_nonfinite` is not set."""

    def report_norm(self, total: float, clip_norm: float) -> Any:
        if not math.isfinite(total):
            message = "the norm is not finite"
            raise RuntimeError(message)
        return total
