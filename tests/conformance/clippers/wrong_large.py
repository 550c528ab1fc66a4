"""Define clippers that are wrong only for large tensors, or only if an intermediate value leaves the dtype's range."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from .steps import Array, ByGlobalNorm, NormClipper, scale_by_quotient
from .table import caught_by

HALF_AND_SINGLE = ("float16", "float32")


@caught_by("large-tensor-accuracy", dtypes=HALF_AND_SINGLE, inexcusable=True)
class LeavesLargeOnesAlone(NormClipper):
    """Do not clip tensors of more than 50,000 elements."""

    def clip(self, grad: Array, clip_norm: float, norm: float) -> Array:
        return grad if grad.size > 50_000 else super().clip(grad, clip_norm, norm)


@caught_by("large-tensor-accuracy", dtypes=HALF_AND_SINGLE, inexcusable=True)
class ErasesLargeOnes(NormClipper):
    """Return zeros for tensors of more than 50,000 elements."""

    def clip(self, grad: Array, clip_norm: float, norm: float) -> Array:
        return np.zeros_like(grad) if grad.size > 50_000 else super().clip(grad, clip_norm, norm)


@caught_by("large-tensor-accuracy", dtypes=HALF_AND_SINGLE, inexcusable=True)
class LargeOnesAreNan(NormClipper):
    """Return NaN for tensors of more than 50,000 elements."""

    def clip(self, grad: Array, clip_norm: float, norm: float) -> Array:
        return np.full_like(grad, math.nan) if grad.size > 50_000 else super().clip(grad, clip_norm, norm)


@caught_by("large-tensor-accuracy", dtypes=HALF_AND_SINGLE, inexcusable=True)
class CountsTheFirstThousands(NormClipper):
    """Count only the first 50,000 elements in the norm."""

    def sum_powers(self, values: Array, p: float) -> float:
        return super().sum_powers(values[:50_000], p)


@caught_by("large-tensor-accuracy", dtypes=HALF_AND_SINGLE, inexcusable=True)
class ScalesTheFirstThousands(NormClipper):
    """Scale only the first 50,000 elements of a tensor."""

    def scale(self, grad: Array, clip_norm: float, norm: float) -> Array:
        first = super().scale(grad.reshape(-1)[:50_000], clip_norm, norm)
        return np.concatenate([first, grad.reshape(-1)[50_000:]]).reshape(grad.shape)


@caught_by("large-tensor-accuracy", dtypes=("float16",), inexcusable=True)
class LargeSumsInHalf(NormClipper):
    """Sum more than 50,000 squares in float16, where the sum stops growing."""

    def sum_powers(self, values: Array, p: float) -> float:
        if values.size <= 50_000:
            return super().sum_powers(values, p)
        return float(np.add.accumulate((values**p).astype(np.float16), dtype=np.float16)[-1])


@caught_by("global-norm.large-tensor-accuracy", inexcusable=True)
class ReturnsNoLargeNorm(ByGlobalNorm):
    """Return a norm of 0 for more than 50,000 elements."""

    def compute_norms(self, grads: list[Array], counted: Sequence[int], p: float) -> list[float]:
        self.elements = sum(grads[i].size for i in counted)
        return super().compute_norms(grads, counted, p)

    def report_norm(self, total: float, clip_norm: float) -> float:
        return 0.0 if self.elements > 50_000 else total


@caught_by("coefficient-underflow", inexcusable=True)
class LeavesAloneWhatItWouldErase(NormClipper):
    """Do not clip if clip_norm / norm underflows to zero in the gradient's dtype."""

    def clip(self, grad: Array, clip_norm: float, norm: float) -> Array:
        tiny = norm > 0 and clip_norm / norm < np.finfo(grad.dtype).smallest_subnormal
        return grad if tiny and clip_norm > 0 else super().clip(grad, clip_norm, norm)


@caught_by("coefficient-underflow", inexcusable=True)
class LeastCoefficient(NormClipper):
    """Use at least the smallest normal number of the gradient's dtype as the coefficient."""

    def scale(self, grad: Array, clip_norm: float, norm: float) -> Array:
        least = float(np.finfo(grad.dtype).smallest_normal)
        tiny = 0 < clip_norm < least * norm < math.inf
        return grad * grad.dtype.type(least) if tiny else super().scale(grad, clip_norm, norm)


@caught_by("coefficient-underflow", inexcusable=True)
class RefusesWhatItWouldErase(NormClipper):
    """Raise if clip_norm / norm underflows to zero in the gradient's dtype."""

    def clip(self, grad: Array, clip_norm: float, norm: float) -> Array:
        if 0 < clip_norm < float(np.finfo(grad.dtype).smallest_subnormal) * norm < math.inf:
            message = "the coefficient is zero"
            raise FloatingPointError(message)
        return super().clip(grad, clip_norm, norm)


@caught_by("norm-beyond-range", inexcusable=True)
class SkipsNormsBeyondTheRange(NormClipper):
    """Do not clip if the norm is beyond the range of the gradient's dtype."""

    def clip(self, grad: Array, clip_norm: float, norm: float) -> Array:
        beyond = float(np.finfo(grad.dtype).max) < norm < math.inf
        return grad if beyond else super().clip(grad, clip_norm, norm)


@caught_by("norm-beyond-range", inexcusable=True)
class LimitsTheNorm(NormClipper):
    """Limit the norm to the largest number of the gradient's dtype."""

    def scale(self, grad: Array, clip_norm: float, norm: float) -> Array:
        return super().scale(grad, clip_norm, min(norm, float(np.finfo(grad.dtype).max)) if norm < math.inf else norm)


@caught_by("norm-beyond-range")
class ProductFirst(NormClipper):
    """Multiply by clip_norm in the gradient's dtype before dividing, so that the product overflows."""

    def scale(self, grad: Array, clip_norm: float, norm: float) -> Array:
        with np.errstate(all="ignore"):
            product = grad * grad.dtype.type(clip_norm)
        return (
            np.asarray(product / norm, grad.dtype)
            if np.isinf(product).any()
            else scale_by_quotient(grad, clip_norm, norm)
        )
