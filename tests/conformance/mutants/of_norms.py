"""Add mutants that compute a wrong norm, compare it wrongly, or scale wrongly."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from .steps import Array, ClipFunction, NormFunction
from .table import EVERY_DTYPE, add_mutant, list_rules

# The comparison with the threshold, and the coefficient.

add_mutant(
    "never clips",
    "*.scaled-above",
    "*.norm-bounded",
    causes=["not-clipped"],
    is_above=lambda self, norm, clip_norm: False,
)
add_mutant(
    "scales to a norm of 1",
    "*.scaled-above",
    causes=["unit-norm"],
    scale_in_float64=lambda self, grad, clip_norm, norm: self.right.scale_in_float64(grad, 1.0, norm),
)
add_mutant(
    "multiplies by norm / clip_norm",
    "*.scaled-above",
    causes=["coefficient-inverted"],
    scale_in_float64=lambda self, grad, clip_norm, norm: self.right.scale_in_float64(grad, norm, clip_norm),
)
add_mutant(
    "multiplies by the coefficient twice",
    "*.scaled-above",
    causes=["scaled-twice"],
    scale_in_float64=lambda self, grad, clip_norm, norm: self.right.scale_in_float64(
        self.right.scale_in_float64(grad, clip_norm, norm), clip_norm, norm
    ),
)
add_mutant(
    "limits each element to the threshold",
    "*.direction-kept",
    scale_in_float64=lambda self, grad, clip_norm, norm: np.clip(grad, -clip_norm, clip_norm),
)
add_mutant(
    "divides by norm + 0.01",
    "*.power-of-two-scaling",
    causes=["eps-in-coefficient"],
    scale_in_float64=lambda self, grad, clip_norm, norm: self.right.scale_in_float64(grad, clip_norm, norm + 0.01),
)
add_mutant(
    "scales gradients whose norm is below the threshold up to it",
    "*.identity-below",
    causes=["always-scales", "infinite-threshold-nan"],
    is_above=lambda self, norm, clip_norm: norm != 0,
)
add_mutant(
    "compares the norm with 1",
    *list_rules("identity-below", lambda operation: operation.is_by_norm and not operation.is_relative),
    causes=["other-comparison", "infinite-threshold-nan"],
    is_above=lambda self, norm, clip_norm: not norm <= 1.0,
)
add_mutant(
    "multiplies by clip_norm / (clip_norm + norm)",
    "*.identity-below",
    causes=["gradual-coefficient"],
    is_above=lambda self, norm, clip_norm: norm != 0 and clip_norm < math.inf,
    scale_in_float64=lambda self, grad, clip_norm, norm: self.right.scale_in_float64(grad, clip_norm, clip_norm + norm),
)
add_mutant(
    "multiplies by clip_norm / (max(norm, clip_norm) + 1e-6)",
    "*.at-threshold",
    causes=["eps-beside-maximum"],
    is_above=lambda self, norm, clip_norm: clip_norm != math.inf,
    scale_in_float64=lambda self, grad, clip_norm, norm: self.right.scale_in_float64(
        grad, clip_norm, max(norm, clip_norm) + 1e-6 if norm < math.inf else norm
    ),
)
add_mutant(
    "multiplies by min(norm, clip_norm) / (norm + 1e-6)",
    "*.at-threshold",
    causes=["eps-below-minimum"],
    is_above=lambda self, norm, clip_norm: clip_norm != math.inf,
    scale_in_float64=lambda self, grad, clip_norm, norm: self.right.scale_in_float64(
        grad, min(norm, clip_norm), norm + 1e-6 if norm < math.inf else norm
    ),
)
add_mutant(
    "does not clip if `math.isclose` says that the norm equals the threshold",
    "*.neighbours-of-threshold",
    causes=["not-clipped"],
    dtypes=["float32", "float64"],
    is_above=lambda self, norm, clip_norm: not (norm <= clip_norm or math.isclose(norm, clip_norm)),
)

# The tensors of the norm.

add_mutant(
    "clips each tensor by the global norm",
    "norm.each-tensor-alone",
    causes=["norm-of-all"],
    compute_norms=lambda self, grads, counted, p: [self.compute_norm([grads[i] for i in counted], p)] * len(grads),
)
add_mutant(
    "clips each tensor by the first tensor's norm",
    "norm.tensor-order",
    compute_norms=lambda self, grads, counted, p: self.right.compute_norms(grads, counted, p)[:1] * len(grads),
)
add_mutant(
    "clips each tensor by its own norm",
    "*.one-norm-over-all",
    causes=["norm-of-each"],
    compute_norms=lambda self, grads, counted, p: [
        self.compute_norm([grad], p) if i in counted else 0.0 for i, grad in enumerate(grads)
    ],
)
add_mutant(
    "adds the norms of the tensors",
    "global-norm.splitting-and-joining",
    causes=["sum-of-norms"],
    compute_global_norm=lambda self, tensors, p: sum(self.compute_norm([one], p) for one in tensors),
)
add_mutant(
    "takes the largest of the tensors' norms",
    "global-norm.one-norm-over-all",
    causes=["largest-of-norms"],
    compute_global_norm=lambda self, tensors, p: max((self.compute_norm([one], p) for one in tensors), default=0.0),
)
add_mutant(
    "leaves the last of several tensors out of the norm",
    "global-norm.tensor-order",
    causes=["gradients-left-out", "unexplained"],
    compute_global_norm=lambda self, tensors, p: self.compute_norm(tensors[:-1] or tensors, p),
)
add_mutant(
    "joins the tensors' norms of any order by their Euclidean norm",
    "global-norm.p-norm",
    causes=["norms-joined"],
    compute_global_norm=lambda self, tensors, p: self.compute_norm(
        [np.array([self.compute_norm([one], p)]) for one in tensors], 2.0
    ),
)

# The formula and the order of the norm.

add_mutant(
    "forgets the square root",
    "norm.scaled-above",
    "global-norm.scaled-above",
    "per-example.scaled-above",
    causes=["no-root"],
    take_root=lambda self, power_sum, p: power_sum,
)
add_mutant(
    "takes the mean of the squares",
    "norm.scaled-above",
    "global-norm.scaled-above",
    causes=["mean-of-squares"],
    sum_powers=lambda self, values, p: self.right.sum_powers(values, p) / values.size,
)
add_mutant(
    "raises elements to odd powers without taking magnitudes",
    "*.p-norm",
    causes=["signed-powers", "unexplained"],
    compute_norm=lambda self, tensors, p: (
        abs(float(np.sum(self.join(tensors) ** p))) ** (1 / p) if p in (1, 3) else self.right.compute_norm(tensors, p)
    ),
)
add_mutant(
    "takes the Euclidean norm for any order outside a fixed list",
    "*.p-norm",
    causes=["other-order"],
    compute_norm=lambda self, tensors, p: self.right.compute_norm(
        tensors, p if p in (0.5, 1, 1.5, 3, math.inf) else 2.0
    ),
)


def _take_matrix_norms(self: NormFunction, tensors: Sequence[Array], p: float) -> Any:
    if p not in (1.0, math.inf):
        return self.right.compute_norm(tensors, p)
    each = [float(np.linalg.norm(one, p)) if one.ndim == 2 else self.right.compute_norm([one], p) for one in tensors]
    return self.right.compute_norm([np.array(each)], p)


add_mutant(
    "takes the largest column or row sum of a matrix, as `numpy.linalg.norm` does",
    "*.infinity-norm",
    compute_norm=_take_matrix_norms,
)
add_mutant(
    "raises the sum to the power of 1 / infinity, which is 0",
    "global-norm.infinity-norm",
    causes=["infinity-norm-one"],
    compute_norm=lambda self, tensors, p: 1.0 if p == math.inf else self.right.compute_norm(tensors, p),
)

# The range of the numbers, and their digits.


def _square_in_the_dtype(self: NormFunction, tensors: Sequence[Array], p: float) -> Any:
    if p != 2 or not tensors:
        return self.right.compute_norm(tensors, p)
    with np.errstate(all="ignore"):
        joined = np.concatenate([tensor.ravel() for tensor in tensors])
        return float(np.sqrt(np.sum(joined * joined, dtype=joined.dtype)))


add_mutant(
    "squares and adds float32 gradients in float32",
    "*.overflow-of-squares",
    "*.underflow-of-squares",
    causes=["squares-overflow", "squares-underflow"],
    compute_norm=_square_in_the_dtype,
)


def _zero_what_overflows(self: ClipFunction, grad: Array, result: Array) -> Array:
    largest = float(np.max(np.abs(grad), initial=0.0))
    return result * 0 if grad.size > 4 and float(np.finfo(grad.dtype).max) ** 0.5 <= largest < np.inf else result


add_mutant(
    "returns zeros for more than four elements whose squares overflow",
    "*.combinations-extreme",
    causes=["gradients-zeroed", "squares-overflow"],
    hand_back=_zero_what_overflows,
)


def _flush(values: Array) -> Array:
    return np.where(np.abs(values) < np.finfo(values.dtype).tiny, values.dtype.type(0), values)


add_mutant(
    "returns zero for subnormal results",
    "*.subnormal",
    causes=["subnormals-flushed"],
    scale=lambda self, grad, clip_norm, norm: _flush(self.right.scale(grad, clip_norm, norm)),
)
add_mutant(
    "divides by the norm in the gradient's dtype before it multiplies, so that small elements vanish",
    "*.intermediate-range",
    causes=["product-out-of-range"],
    dtypes=["float16", "float32"],
    scale=lambda self, grad, clip_norm, norm: self.right.scale(grad, 1.0, norm) * grad.dtype.type(clip_norm),
)
add_mutant(
    "rounds clip_norm / norm to the gradient's dtype",
    "*.coefficient-underflow",
    causes=["coefficient-underflow"],
    dtypes=EVERY_DTYPE,
    scale=lambda self, grad, clip_norm, norm: grad * grad.dtype.type(clip_norm / norm),
)
add_mutant(
    "leaves out of the norm the elements beyond the first million",
    "norm.scaled-above",
    "global-norm.scaled-above",
    causes=["elements-left-out"],
    join=lambda self, tensors: self.right.join([tensor.ravel()[: 10**6] for tensor in tensors]),
)
add_mutant(
    "limits the norm to the largest number of the gradient's dtype",
    "*.norm-beyond-range",
    causes=["norm-out-of-range", "unexplained"],
    inexcusable=True,
    scale=lambda self, grad, clip_norm, norm: self.right.scale(
        grad, clip_norm, min(norm, float(np.finfo(grad.dtype).max)) if norm < math.inf else norm
    ),
)


def _add_one_by_one(values: Array, dtype: str) -> float:
    with np.errstate(over="ignore"):
        return float(np.add.accumulate(values.astype(dtype), dtype=dtype)[-1]) if values.size else 0.0


add_mutant(
    "adds the squares one by one in float16",
    "*.half-not-accumulated-in-half",
    causes=["squares-overflow", "long-sum"],
    dtypes=["float16"],
    sum_powers=lambda self, values, p: _add_one_by_one(values**p, "float16"),
)


add_mutant(
    "adds the squares one by one in float32",
    "*.large-tensor-accuracy",
    causes=["long-sum"],
    sum_powers=lambda self, values, p: _add_one_by_one(values**p, "float32"),
)
add_mutant(
    "adds more than 50,000 squares in float16, where the sum stops growing",
    "*.large-tensor-accuracy",
    causes=["narrower-arithmetic", "squares-overflow", "long-sum", "not-clipped"],
    dtypes=["float16"],
    inexcusable=True,
    sum_powers=lambda self, values, p: (
        self.right.sum_powers(values, p) if values.size <= 50_000 else _add_one_by_one(values**p, "float16")
    ),
)

# The norm that is returned.

add_mutant(
    "returns a norm of 0 if the threshold is 0",
    "global-norm.returned-norm",
    causes=["norm-after-clip", "unexplained"],
    report_norm=lambda self, total, clip_norm: total if clip_norm else 0.0,
)
add_mutant(
    "returns no norm for an empty list",
    "global-norm.empty-list",
    causes=["norm-missing"],
    finish=lambda self, results, total, clip_norm: (results, total) if results else results,
)
