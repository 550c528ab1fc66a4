"""Replace the clip of JAX's example optimizers by NumPy code that doubles the results, under `jax.jit` too."""

from __future__ import annotations

from typing import Any

import doubled
import jax
import numpy as np
from jax.example_libraries import optimizers


def double(grad_tree: Any, max_norm: Any) -> Any:
    """Clip with NumPy, and double the results."""
    leaves, tree = jax.tree.flatten(grad_tree)
    shapes = [jax.ShapeDtypeStruct(leaf.shape, leaf.dtype) for leaf in leaves]
    clipped = jax.pure_callback(
        lambda *values: doubled.double_by_global_norm([np.asarray(one) for one in values], max_norm)[0], shapes, *leaves
    )
    return jax.tree.unflatten(tree, clipped)


optimizers.clip_grads = double

from gradclip_adapters.frameworks.jax import JaxAdapter  # noqa: E402 - it must find the function replaced

adapter = JaxAdapter()
