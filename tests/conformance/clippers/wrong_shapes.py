"""Clippers that do not keep shape, dtype or layout."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from .steps import Array, ByGlobalNorm, ByNorm, Clipper, Gradients, NormClipper
from .table import caught_by


@caught_by("empty-tensor")
class RaisesForEmptyTensors(Clipper):
    """Takes the largest element of each tensor, which an empty one does not have."""

    def hand_back(self, grad: Array, result: Any) -> Any:
        np.max(grad)
        return result


@caught_by("empty-tensor")
class DropsEmptyTensors(Clipper):
    """Leaves empty tensors out of the answer."""

    def answer(self, grads: Gradients, need_clip: Sequence[bool], results: Gradients) -> Any:
        return [result for result in results if result is None or result.size]


@caught_by("empty-tensor")
class NoneForEmptyTensors(Clipper):
    """Gives None for an empty tensor."""

    def hand_back(self, grad: Array, result: Any) -> Any:
        return result if grad.size else None


@caught_by("empty-tensor")
class FlattensEmptyTensors(Clipper):
    """Gives an empty matrix back as an empty vector."""

    def hand_back(self, grad: Array, result: Any) -> Any:
        return result if grad.size else result.ravel()


@caught_by("norm.empty-tensor")
class FillsEmptyTensors(ByNorm):
    """Gives one zero for an empty tensor."""

    def hand_back(self, grad: Array, result: Any) -> Any:
        return result if grad.size else np.zeros(1, grad.dtype)


@caught_by("global-norm.empty-tensor")
class EmptyTensorIsNan(ByGlobalNorm):
    """Takes the mean square of each tensor times its size, which is NaN for an empty one."""

    def global_norm(self, tensors: Sequence[Array], p: float) -> float:
        return super().global_norm(tensors, p) if all(tensor.size for tensor in tensors) else float("nan")


@caught_by("zero-dimensional")
class ScalarsBecomeVectors(Clipper):
    """Gives a gradient of no dimensions back with one."""

    def hand_back(self, grad: Array, result: Any) -> Any:
        return np.atleast_1d(result)


@caught_by("zero-dimensional")
class ScalarsLeftAlone(Clipper):
    """Does not clip gradients of no dimensions."""

    def hand_back(self, grad: Array, result: Any) -> Any:
        return result if grad.ndim else grad


@caught_by("zero-dimensional")
class ScalarsNeedALength(Clipper):
    """Asks each gradient for its length."""

    def hand_back(self, grad: Array, result: Any) -> Any:
        len(grad)
        return result


@caught_by("zero-dimensional")
class PythonScalars(Clipper):
    """Gives Python numbers for gradients of no dimensions, and forgets their fractions."""

    def hand_back(self, grad: Array, result: Any) -> Any:
        return result if grad.ndim else int(result)


@caught_by("shape-kept")
class Flattens(Clipper):
    """Gives every gradient back as a vector."""

    def hand_back(self, grad: Array, result: Any) -> Any:
        return np.ravel(result)


@caught_by("shape-kept")
class Squeezes(Clipper):
    """Drops axes of length one."""

    def hand_back(self, grad: Array, result: Any) -> Any:
        return np.squeeze(result)


@caught_by("shape-kept")
class Transposes(Clipper):
    """Gives matrices back transposed."""

    def hand_back(self, grad: Array, result: Any) -> Any:
        return np.transpose(result)


@caught_by("shape-kept")
class FlattensTheClipped(NormClipper):
    """Gives what it scales back as a vector."""

    def scale(self, grad: Array, clip_norm: float, norm: float) -> Array:
        return super().scale(grad, clip_norm, norm).ravel()


@caught_by("shape-kept")
class FlattensTheUnclipped(NormClipper):
    """Gives what it does not scale back as a vector."""

    def clip(self, grad: Array, clip_norm: float, norm: float) -> Array:
        return super().clip(grad, clip_norm, norm) if self.is_above(norm, clip_norm) else grad.ravel()


@caught_by("dtype-kept")
@caught_by("mixed-dtypes", dtypes=("float16", "float32", "float64"))
class Widens(Clipper):
    """Gives everything back in float64."""

    def hand_back(self, grad: Array, result: Any) -> Any:
        return np.asarray(result, np.float64)


@caught_by("dtype-kept")
class WidensTheClipped(NormClipper):
    """Gives what it scales back in float64."""

    def scale(self, grad: Array, clip_norm: float, norm: float) -> Array:
        return self.wide_scale(grad, clip_norm, norm)


@caught_by("dtype-kept")
class WidensTheUnclipped(NormClipper):
    """Gives what it does not scale back in float64."""

    def clip(self, grad: Array, clip_norm: float, norm: float) -> Array:
        kept = super().clip(grad, clip_norm, norm)
        return kept if self.is_above(norm, clip_norm) else kept.astype(np.float64)


@caught_by("dtype-kept", dtypes=("float64",))
class Narrows(Clipper):
    """Gives everything back in float32."""

    def hand_back(self, grad: Array, result: Any) -> Any:
        return np.asarray(result, np.float32)


@caught_by("dtype-kept", dtypes=("float16",))
class HalfBecomesSingle(Clipper):
    """Gives float16 gradients back in float32."""

    def hand_back(self, grad: Array, result: Any) -> Any:
        return np.asarray(result, np.float32)


@caught_by("dtype-kept")
class Integers(Clipper):
    """Gives integers back."""

    def hand_back(self, grad: Array, result: Any) -> Any:
        return np.asarray(result).astype(np.int64)


@caught_by("layout")
class MemoryOrderInRowOrder(Clipper):
    """Reads elements in the order of memory, and gives them back in that of rows."""

    def hand_back(self, grad: Array, result: Any) -> Any:
        same_layout = np.empty_like(grad)
        same_layout[...] = result
        return same_layout.ravel(order="K").reshape(grad.shape)


@caught_by("norm.layout", "global-norm.layout")
class CountsTheGaps(NormClipper):
    """Walks the whole buffer of a strided gradient."""

    def joined(self, tensors: Sequence[Array]) -> Array:
        return super().joined([tensor if tensor.base is None else tensor.base for tensor in tensors])


@caught_by("layout")
class ContiguousOnly(Clipper):
    """Refuses gradients that are not contiguous."""

    def hand_back(self, grad: Array, result: Any) -> Any:
        if not grad.flags.c_contiguous:
            message = "ndarray is not C-contiguous"
            raise ValueError(message)
        return result


@caught_by("layout")
class StridedLeftAlone(Clipper):
    """Clips a copy of what is not contiguous, and gives the original back."""

    def hand_back(self, grad: Array, result: Any) -> Any:
        return result if grad.flags.c_contiguous else grad


@caught_by("layout")
class SwapsAxes(Clipper):
    """Gives what lies in columns back with its axes swapped and its shape put right again."""

    def hand_back(self, grad: Array, result: Any) -> Any:
        if grad.ndim == 2 and grad.flags.f_contiguous and not grad.flags.c_contiguous:
            return np.ascontiguousarray(np.transpose(result)).reshape(grad.shape)
        return result if grad.flags.c_contiguous else np.flip(result)
