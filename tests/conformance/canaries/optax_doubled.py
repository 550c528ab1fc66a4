"""Replace Optax's clips by NumPy code that doubles the results, under `jax.jit` too."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import doubled
import jax
import numpy as np
import optax


def transform(clip: Callable[[list[Any]], list[Any]]) -> optax.GradientTransformation:
    """Return a transformation that calls a function on a list of NumPy arrays."""

    def update(updates: Any, state: Any, params: Any = None) -> tuple[Any, Any]:
        leaves, tree = jax.tree.flatten(updates)
        shapes = [jax.ShapeDtypeStruct(leaf.shape, leaf.dtype) for leaf in leaves]
        clipped = jax.pure_callback(lambda *values: clip([np.asarray(one) for one in values]), shapes, *leaves)
        return jax.tree.unflatten(tree, clipped), state

    return optax.GradientTransformation(lambda params: optax.EmptyState(), update)


def clip(max_delta: float) -> optax.GradientTransformation:
    """Clip with NumPy."""
    return transform(lambda values: [doubled.double_by_value(one, -max_delta, max_delta) for one in values])


def clip_by_global_norm(max_norm: float) -> optax.GradientTransformation:
    """Clip with NumPy."""
    return transform(lambda values: doubled.double_by_global_norm(values, max_norm)[0])


def clip_by_block_rms(threshold: float) -> optax.GradientTransformation:
    """Clip with NumPy."""
    return transform(lambda values: [doubled.double_by_average(one, threshold, 0.5) for one in values])


def adaptive_grad_clip(clipping: float) -> optax.GradientTransformation:
    """Clip with NumPy."""

    def update(updates: Any, state: Any, params: Any) -> tuple[Any, Any]:
        count = len(updates)
        pairs = transform(
            lambda values: [
                *(
                    doubled.double_unitwise(one, weight, clipping, -1)
                    for one, weight in zip(values[:count], values[count:], strict=True)
                ),
                *values[count:],
            ]
        ).update([*updates, *params], state)
        return pairs[0][:count], state

    return optax.GradientTransformation(lambda params: optax.EmptyState(), update)


def clip_per_example(gradients: list[Any], l2_norm_clip: float) -> tuple[list[Any], int]:
    """Clip with NumPy."""
    return add_examples(lambda values: doubled.double_per_example(values, l2_norm_clip), gradients), 0


def clip_layers(gradients: list[Any], global_l2_norm_clip: float, uniform: bool = True) -> tuple[list[Any], int]:
    """Clip with NumPy."""
    return add_examples(lambda values: doubled.double_layers(values, global_l2_norm_clip, equal=uniform), gradients), 0


def add_examples(clip: Callable[[list[Any]], list[Any]], gradients: list[Any]) -> Any:
    """Call a function on a list of NumPy arrays that returns sums over the examples."""
    shapes = [jax.ShapeDtypeStruct(one.shape[1:], one.dtype) for one in gradients]
    return jax.pure_callback(lambda *values: clip([np.asarray(one) for one in values]), shapes, *gradients)


def project_onto_l2_ball(tree: list[Any], scale: float) -> list[Any]:
    """Clip with NumPy."""
    return clip_by_global_norm(scale).update(tree, None)[0]


def project_onto_box(tree: list[Any], lower: Any, upper: Any) -> list[Any]:
    """Clip with NumPy. The bounds are numbers, or lists of equal numbers."""
    low, high = (jax.tree.leaves(bound)[0] for bound in (lower, upper))
    return transform(lambda values: [doubled.double_by_value(one, low, high) for one in values]).update(tree, None)[0]


optax.projections.projection_l2_ball = project_onto_l2_ball
optax.projections.projection_linf_ball = lambda tree, scale: project_onto_box(tree, -scale, scale)
optax.projections.projection_box = project_onto_box
optax.projections.projection_hypercube = lambda tree, scale: project_onto_box(tree, 0, scale)
optax.clip = clip
optax.adaptive_grad_clip = adaptive_grad_clip
optax.per_example_global_norm_clip = clip_per_example
optax.per_example_layer_norm_clip = clip_layers
optax.clip_by_global_norm = clip_by_global_norm
optax.clip_by_block_rms = clip_by_block_rms

from gradclip_adapters.frameworks.optax import OptaxAdapter  # noqa: E402 - it must find the functions replaced

adapter = OptaxAdapter()
