"""List the projections of Optax that are a clip by value, or by the global norm.

The other projections, such as those on a simplex, a sphere or a hyperplane, are no clips.
"""

from __future__ import annotations

from typing import Any, Callable, Dict, Iterator, Sequence

import jax
import optax

from ..contract import EntryPoint, Unsupported
from .jax_trees import COMMON, DTYPES, Clip, list_modes

__all__ = ["list_projections"]

#: A function that takes the arguments of a projection, besides the tree, from the options of a call.
Take = Callable[[Any, Dict[str, Any]], Sequence[Any]]


def list_projections() -> Iterator[EntryPoint]:
    """Yield the entry points of the projections that this version of Optax has."""
    projections: Any = getattr(optax, "projections", None)
    bounded = (*COMMON, "min_max", "requires_min")
    # The lower bound of a hypercube is compared with zero, which a traced number does not allow.
    positive = tuple(feature for feature in bounded if feature != "tensor_threshold")
    for name, operation, features, eager, take, mode in (
        ("projection_l2_ball", "clip_by_global_norm", COMMON, DTYPES, _take_radius, ""),
        ("projection_linf_ball", "clip_by_value", COMMON, DTYPES, _take_upper, ""),
        ("projection_box", "clip_by_value", bounded, DTYPES, _take_trees, "trees as bounds"),
        ("projection_box", "clip_by_value", bounded, ("float32",), _take_scalars, "scalars as bounds"),
        ("projection_hypercube", "clip_by_value", positive, ("float32",), _take_scale, ""),
    ):
        function = getattr(projections, name, None)
        if function is not None:
            clip = _project(function, take)
            title = "optax.projections." + name
            yield from list_modes(title, operation, features, clip, ("float32",), eager=eager, mode=mode)


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
