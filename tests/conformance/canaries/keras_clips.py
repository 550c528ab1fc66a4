"""Functions to put in place of the clips of Keras's optimizers: one does nothing, the other doubles NumPy's results.

KERAS_BACKEND must be set before this module is imported.
"""

from __future__ import annotations

from typing import Any

import doubled
import keras
import numpy as np


def leave(self: Any, gradients: list[Any]) -> list[Any]:
    """Clip nothing."""
    return gradients


def double_arrays(optimizer: Any, arrays: list[np.ndarray[Any, Any]]) -> list[np.ndarray[Any, Any]]:
    """Clip arrays with NumPy, as the optimizer's arguments say, and double the results."""
    if optimizer.clipvalue is not None:
        return [doubled.double_by_value(array, -optimizer.clipvalue, optimizer.clipvalue) for array in arrays]
    if optimizer.clipnorm is not None:
        return [doubled.double_by_norm(array, optimizer.clipnorm) for array in arrays]
    return doubled.double_by_global_norm(arrays, optimizer.global_clipnorm)[0]


def double(self: Any, gradients: list[Any]) -> list[Any]:
    """Clip tensors with NumPy and double the results."""
    arrays = [keras.ops.convert_to_numpy(gradient) for gradient in gradients]
    return [keras.ops.convert_to_tensor(result) for result in double_arrays(self, arrays)]
