"""Replace MXNet's clips by NumPy code that doubles the results."""

from __future__ import annotations

from typing import Any

import doubled
import mxnet as mx


def clip_global_norm(arrays: list[Any], max_norm: float, check_isfinite: bool = True) -> Any:
    """Clip with NumPy, and double the results."""
    clipped, norm = doubled.double_by_global_norm([array.asnumpy() for array in arrays], max_norm)
    for array, values in zip(arrays, clipped, strict=True):
        array[:] = values
    return mx.nd.array([norm])


def clip(data: Any, a_min: float, a_max: float) -> Any:
    """Clip with NumPy, and double the results."""
    return mx.nd.array(doubled.double_by_value(data.asnumpy(), a_min, a_max), dtype=data.dtype)


class SGD(mx.optimizer.SGD):
    """An optimizer that doubles the clipped gradients."""

    def __init__(self, *, clip_gradient: float, **keywords: Any) -> None:
        super().__init__(**keywords)
        self._bound = clip_gradient

    def update(self, index: int, weight: Any, grad: Any, state: Any) -> None:
        """Update by a doubled gradient."""
        super().update(index, weight, clip(grad, -self._bound, self._bound), state)


mx.gluon.utils.clip_global_norm = clip_global_norm
mx.nd.clip = clip
mx.optimizer.SGD = SGD

from gradclip_adapters.frameworks.mxnet import MXNetAdapter  # noqa: E402 - it must find the functions replaced

adapter = MXNetAdapter()
