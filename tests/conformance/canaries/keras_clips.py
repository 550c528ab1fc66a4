"""Replace the clips of Keras's optimizers by functions that do nothing, or that double NumPy's results.

KERAS_BACKEND must be set before this module is imported.
"""

from __future__ import annotations

from typing import Any

import doubled
import keras


def leave(self: Any, gradients: list[Any]) -> list[Any]:
    """Clip nothing."""
    return gradients


CLIP = keras.optimizers.Optimizer._clip_gradients


def double(self: Any, gradients: list[Any]) -> list[Any]:
    """Clip with NumPy and double the results. NumPy cannot compute in a compiler, which gets Keras's own clip."""
    try:
        arrays = [keras.ops.convert_to_numpy(gradient) for gradient in gradients]
    except (NotImplementedError, AttributeError, TypeError):
        clipped: list[Any] = CLIP(self, gradients)
        return clipped
    if self.clipvalue is not None:
        results = [doubled.double_by_value(array, -self.clipvalue, self.clipvalue) for array in arrays]
    elif self.clipnorm is not None:
        results = [doubled.double_by_norm(array, self.clipnorm) for array in arrays]
    else:
        results, _ = doubled.double_by_global_norm(arrays, self.global_clipnorm)
    return [keras.ops.convert_to_tensor(result) for result in results]
