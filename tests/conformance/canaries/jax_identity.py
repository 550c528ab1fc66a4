"""Make the clip of JAX's example optimizers do nothing."""

from __future__ import annotations

from typing import Any

from jax.example_libraries import optimizers


def leave(grad_tree: Any, max_norm: Any) -> Any:
    """Clip nothing."""
    return grad_tree


optimizers.clip_grads = leave

from gradclip_adapters.frameworks.jax import JaxAdapter  # noqa: E402 - it must find the function replaced

adapter = JaxAdapter()
