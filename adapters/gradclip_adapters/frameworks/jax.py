"""Adapt JAX: `clip_grads` and `l2_norm` of `jax.example_libraries.optimizers`, eager, in `jax.jit`, and on meshes."""

from __future__ import annotations

from typing import Any

import jax
from jax.example_libraries import optimizers

from .jax_trees import COMMON, TreeAdapter, list_meshes, list_modes

__all__ = ["JaxAdapter"]


class JaxAdapter(TreeAdapter):
    """Adapter for the clip of JAX's example optimizers. It returns no norm, but `l2_norm` gives one."""

    def __init__(self, device: str = "cpu") -> None:
        """Choose the device, and list the entry points."""
        module = "jax.example_libraries.optimizers."
        operation, compiled = "clip_by_global_norm", ("float32",)
        measured = (*COMMON, "returns_norm")
        super().__init__(
            "JAX",
            jax.__version__,
            [
                *list_modes(module + "clip_grads", operation, COMMON, _clip, compiled),
                *list_modes(module + "l2_norm then clip_grads", operation, measured, _measure_and_clip, compiled),
                *list_meshes(module + "clip_grads", operation, ("distributed", "functional", "none_grads"), _clip),
            ],
            device,
        )


def _clip(tree: Any, *, clip_norm: Any, **more: Any) -> tuple[Any, None]:
    return optimizers.clip_grads(tree, clip_norm, **more), None


def _measure_and_clip(tree: Any, *, clip_norm: Any, **more: Any) -> tuple[Any, Any]:
    norm = optimizers.l2_norm(tree)
    return optimizers.clip_grads(tree, clip_norm, **more), norm
