"""Adapt Optax on JAX: four transformations, two clips per example, and projections, eager and in `jax.jit`.

The transformations are `optax.clip`, `clip_by_global_norm`, `clip_by_block_rms` and `adaptive_grad_clip`, called
through `update`. The first two are called on several devices, too, and on meshes of devices. The projections are those
that are a clip by value, or by the global norm.
"""

from __future__ import annotations

import inspect
from typing import Any, Callable, Dict, Iterator, Sequence

import jax
import optax

from ..contract import EntryPoint, Unsupported
from .jax import COMMON, DTYPES, FLUSHES, NARROW, Clip, TreeAdapter, list_meshes, list_modes

MASKABLE = (*COMMON, "excludes", "flag_kinds")
#: The abilities of a call with a mask that is a function.
MASKED = ("functional", "excludes", "none_grads", "mixed_dtypes", "single", "flag_kinds", *FLUSHES)
#: The abilities of a call on several devices.
SHARDED = ("distributed", "functional", "excludes", "none_grads")
#: The dtypes of entry points that differ from another one in a way that does not depend on the dtype.
ONE = ("float32",)

#: A function that takes the arguments of a projection, besides the tree, from the options of a call.
Take = Callable[[Any, Dict[str, Any]], Sequence[Any]]


class OptaxAdapter(TreeAdapter):
    """Adapter for the clips of Optax."""

    def __init__(self, device: str = "cpu") -> None:
        found = [*_list_transformations(), *_list_per_example(), *_list_projections()]
        super().__init__("Optax", optax.__version__, found, device)


def _list_transformations() -> Iterator[EntryPoint]:
    """Yield the entry points of each transformation."""
    for short, operation, threshold, more, ways in (
        ("clip", "clip_by_value", "max", (), ("sharded",)),
        ("clip_by_global_norm", "clip_by_global_norm", "clip_norm", (), ("mask function", "sharded", "meshes")),
        ("clip_by_block_rms", "clip_by_block_rms", "clip_norm", (), ()),
        ("adaptive_grad_clip", "clip_unitwise", "clip_factor", ("eps", "units_last"), ("mask function",)),
    ):
        name, function, features = "optax." + short, getattr(optax, short), (*MASKABLE, *more)
        clip = _transform(function, threshold)
        yield from list_modes(name, operation, features, clip)
        yield from list_modes(name, operation, features, clip, ONE, eager=ONE, mode=NARROW)
        if "mask function" in ways:
            masked = _transform(function, threshold, mask_by_function=True)
            yield from list_modes(name, operation, (*MASKED, *more), masked, ONE, eager=ONE, mode="mask function")
        if "sharded" in ways:
            yield from list_modes(name, operation, SHARDED, clip, mode="sharded")
        if "meshes" in ways:
            yield from list_meshes(name, operation, SHARDED, clip)


def _transform(function: Any, threshold: str, *, mask_by_function: bool = False) -> Clip:
    """Return a function that makes the transformation, masks the excluded gradients, and applies it to the updates."""

    def clip(updates: Any, *, need_clip: Any = None, parameters: Any = None, **options: Any) -> tuple[Any, None]:
        # Optax raises an error for the options that it does not have.
        transformation = function(options.pop(threshold), **options)
        if need_clip is not None:
            transformation = optax.masked(transformation, (lambda _: need_clip) if mask_by_function else need_clip)
        return transformation.update(updates, transformation.init(updates), parameters)[0], None

    return clip


def _list_per_example() -> Iterator[EntryPoint]:
    """Yield the entry points that clip the gradient of each example."""

    def clip(gradients: Any, *, clip_norm: Any, **more: Any) -> tuple[Any, None]:
        # The function also returns the number of clipped examples.
        return optax.per_example_global_norm_clip(gradients, clip_norm, **more)[0], None

    name, features = "optax.per_example_global_norm_clip", ("functional", "mixed_dtypes", "threads", *FLUSHES)
    yield from list_modes(name, "clip_per_example", features, clip)
    yield from list_modes(name, "clip_per_example", features, clip, ONE, eager=ONE, mode=NARROW)
    # Until 0.2.2, the function adds an `eps` to the threshold, and documents that it adds it to norms.
    if "eps" not in inspect.signature(optax.per_example_layer_norm_clip).parameters:
        features = ("functional", "layers", "threads", *FLUSHES)
        yield from list_modes("optax.per_example_layer_norm_clip", "clip_per_example", features, _clip_layers)


def _clip_layers(gradients: Any, *, clip_norm: Any, layers: Any = None, **more: Any) -> tuple[Any, None]:
    """Clip each layer of each example. With one layer, this is a clip of the whole example."""
    if layers is None and len(gradients) > 1:
        message = "each layer has a norm of its own"
        raise Unsupported(message, "interface")
    keywords = {} if layers is None else {"uniform": layers == "equal"}
    return optax.per_example_layer_norm_clip(gradients, clip_norm, **keywords, **more)[0], None


def _list_projections() -> Iterator[EntryPoint]:
    """Yield the entry points of the projections that this version of Optax has."""
    projections: Any = getattr(optax, "projections", None)
    bounded = (*COMMON, "min_max", "requires_min")
    # The lower bound of a hypercube is compared with zero, which a traced number does not allow.
    positive = tuple(feature for feature in bounded if feature != "tensor_threshold")
    for name, operation, features, eager, take, mode in (
        ("projection_l2_ball", "clip_by_global_norm", COMMON, DTYPES, _take_radius, ""),
        ("projection_linf_ball", "clip_by_value", COMMON, DTYPES, _take_upper, ""),
        ("projection_box", "clip_by_value", bounded, DTYPES, _take_trees, "trees as bounds"),
        ("projection_box", "clip_by_value", bounded, ONE, _take_scalars, "scalars as bounds"),
        ("projection_hypercube", "clip_by_value", positive, ONE, _take_scale, ""),
    ):
        function = getattr(projections, name, None)
        if function is not None:
            clip = _project(function, take)
            title = "optax.projections." + name
            yield from list_modes(title, operation, features, clip, ONE, eager=eager, mode=mode)


def _project(function: Any, take: Take) -> Clip:
    """Return a function that calls the projection with the arguments that `take` finds."""

    def clip(tree: Any, **options: Any) -> tuple[Any, None]:
        arguments = take(tree, options)
        # Optax raises an error for the options that it does not have.
        return function(tree, *arguments, **options), None

    return clip


def _take_radius(_: Any, options: dict[str, Any]) -> Sequence[Any]:
    return [options.pop("clip_norm")]


def _take_upper(_: Any, options: dict[str, Any]) -> Sequence[Any]:
    return [options.pop("max")]


def _take_scalars(_: Any, options: dict[str, Any]) -> Sequence[Any]:
    return [options.pop("min"), options.pop("max")]


def _take_trees(tree: Any, options: dict[str, Any]) -> Sequence[Any]:
    lower, upper = _take_scalars(tree, options)
    return [jax.tree_util.tree_map(lambda _: lower, tree), jax.tree_util.tree_map(lambda _: upper, tree)]


def _take_scale(tree: Any, options: dict[str, Any]) -> Sequence[Any]:
    lower, upper = _take_scalars(tree, options)
    if lower != 0:
        message = "the lower bound of a hypercube is zero"
        raise Unsupported(message, "interface")
    return [upper]
