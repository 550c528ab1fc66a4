"""Define clippers that change the shape, the dtype or the layout."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from .steps import Array, ByGlobalNorm, ByNorm, Clipper, Gradients, NormClipper
from .table import caught_by


@caught_by("empty-tensor")
class RaisesForEmptyTensors(Clipper):
    """Raise for an empty tensor, because it has no largest element."""

    def hand_back(self, grad: Array, result: Any) -> Any:
        np.max(grad)
        return result


@caught_by("empty-tensor")
class DropsEmptyTensors(Clipper):
    """Drop empty tensors from the result."""

    def answer(self, grads: Gradients, need_clip: Sequence[bool], results: Gradients) -> Any:
        return [result for result in results if result is None or result.size]


@caught_by("empty-tensor")
class NoneForEmptyTensors(Clipper):
    """Return None for an empty tensor."""

    def hand_back(self, grad: Array, result: Any) -> Any:
        return result if grad.size else None


@caught_by("empty-tensor")
class FlattensEmptyTensors(Clipper):
    """Flatten empty tensors."""

    def hand_back(self, grad: Array, result: Any) -> Any:
        return result if grad.size else result.ravel()


@caught_by("norm.empty-tensor")
class FillsEmptyTensors(ByNorm):
    """Return a single zero for an empty tensor."""

    def hand_back(self, grad: Array, result: Any) -> Any:
        return result if grad.size else np.zeros(1, grad.dtype)


@caught_by("global-norm.empty-tensor")
class EmptyTensorIsNan(ByGlobalNorm):
    """Treat the norm as NaN if a tensor is empty, because its mean square is NaN."""

    def compute_global_norm(self, tensors: Sequence[Array], p: float) -> float:
        return super().compute_global_norm(tensors, p) if all(tensor.size for tensor in tensors) else float("nan")


@caught_by("zero-dimensional")
class ScalarsBecomeVectors(Clipper):
    """Return a zero-dimensional gradient as a vector."""

    def hand_back(self, grad: Array, result: Any) -> Any:
        return np.atleast_1d(result)


@caught_by("zero-dimensional")
class ScalarsLeftAlone(Clipper):
    """Do not clip zero-dimensional gradients."""

    def hand_back(self, grad: Array, result: Any) -> Any:
        return result if grad.ndim else grad


@caught_by("zero-dimensional")
class ScalarsNeedALength(Clipper):
    """Raise for a zero-dimensional gradient, because it has no length."""

    def hand_back(self, grad: Array, result: Any) -> Any:
        len(grad)
        return result


@caught_by("zero-dimensional")
class PythonScalars(Clipper):
    """Return a Python integer for a zero-dimensional gradient."""

    def hand_back(self, grad: Array, result: Any) -> Any:
        return result if grad.ndim else int(result)


@caught_by("shape-kept")
class Flattens(Clipper):
    """Flatten every gradient."""

    def hand_back(self, grad: Array, result: Any) -> Any:
        return np.ravel(result)


@caught_by("shape-kept")
class Squeezes(Clipper):
    """Drop axes of length 1."""

    def hand_back(self, grad: Array, result: Any) -> Any:
        return np.squeeze(result)


@caught_by("shape-kept")
class Transposes(Clipper):
    """Transpose every gradient."""

    def hand_back(self, grad: Array, result: Any) -> Any:
        return np.transpose(result)


@caught_by("shape-kept")
class FlattensTheClipped(NormClipper):
    """Flatten gradients that are scaled."""

    def scale(self, grad: Array, clip_norm: float, norm: float) -> Array:
        return super().scale(grad, clip_norm, norm).ravel()


@caught_by("shape-kept")
class FlattensTheUnclipped(NormClipper):
    """Flatten gradients that are not scaled."""

    def clip(self, grad: Array, clip_norm: float, norm: float) -> Array:
        return super().clip(grad, clip_norm, norm) if self.is_above(norm, clip_norm) else grad.ravel()


@caught_by("dtype-kept")
@caught_by("mixed-dtypes", dtypes=("float16", "float32", "float64"))
class Widens(Clipper):
    """Return every gradient in float64."""

    def hand_back(self, grad: Array, result: Any) -> Any:
        return np.asarray(result, np.float64)


@caught_by("dtype-kept")
class WidensTheClipped(NormClipper):
    """Return scaled gradients in float64."""

    def scale(self, grad: Array, clip_norm: float, norm: float) -> Array:
        return self.scale_in_float64(grad, clip_norm, norm)


@caught_by("dtype-kept")
class WidensTheUnclipped(NormClipper):
    """Return unscaled gradients in float64."""

    def clip(self, grad: Array, clip_norm: float, norm: float) -> Array:
        kept = super().clip(grad, clip_norm, norm)
        return kept if self.is_above(norm, clip_norm) else kept.astype(np.float64)


@caught_by("dtype-kept", dtypes=("float64",))
class Narrows(Clipper):
    """Return every gradient in float32."""

    def hand_back(self, grad: Array, result: Any) -> Any:
        return np.asarray(result, np.float32)


@caught_by("dtype-kept", dtypes=("float16",))
class HalfBecomesSingle(Clipper):
    """Return float16 gradients in float32."""

    def hand_back(self, grad: Array, result: Any) -> Any:
        return np.asarray(result, np.float32)


@caught_by("dtype-kept")
class Integers(Clipper):
    """Return integers."""

    def hand_back(self, grad: Array, result: Any) -> Any:
        return np.asarray(result).astype(np.int64)


@caught_by("layout")
class MemoryOrderInRowOrder(Clipper):
    """Read the results in memory order and return them in row order."""

    def hand_back(self, grad: Array, result: Any) -> Any:
        same_layout = np.empty_like(grad)
        same_layout[...] = result
        return same_layout.ravel(order="K").reshape(grad.shape)


@caught_by("norm.layout", "global-norm.layout")
class CountsTheGaps(NormClipper):
    """Count the whole buffer of a strided gradient in the norm."""

    def join(self, tensors: Sequence[Array]) -> Array:
        return super().join([tensor if tensor.base is None else tensor.base for tensor in tensors])


@caught_by("layout")
class ContiguousOnly(Clipper):
    """Refuse gradients that are not contiguous."""

    def hand_back(self, grad: Array, result: Any) -> Any:
        if not grad.flags.c_contiguous:
            message = "ndarray is not C-contiguous"
            raise ValueError(message)
        return result


@caught_by("layout")
class StridedLeftAlone(Clipper):
    """Do not clip gradients that are not contiguous."""

    def hand_back(self, grad: Array, result: Any) -> Any:
        return result if grad.flags.c_contiguous else grad


@caught_by("layout")
class SwapsAxes(Clipper):
    """Permute the elements of gradients that are not contiguous."""

    def hand_back(self, grad: Array, result: Any) -> Any:
        if grad.ndim == 2 and grad.flags.f_contiguous and not grad.flags.c_contiguous:
            return np.ascontiguousarray(np.transpose(result)).reshape(grad.shape)
        return result if grad.flags.c_contiguous else np.flip(result)
