"""Gradients come as one array or as any tree of arrays and None; here they are taken apart and put together again.

Single arrays and flat lists, tuples and dicts, which is what nearly everyone has, need nothing else. Nested and
registered containers are left to the library optree, which is imported only when one is met.
"""

import reprlib
from collections.abc import Callable, Collection, Iterator, Sequence, ValuesView
from dataclasses import dataclass
from typing import Any

import array_api_compat
import numpy as np

__all__ = ["Path", "Tree", "flatten", "included_indices", "one_of_each_type"]

#: Where a leaf stands: the keys and indices that lead to it; empty for a single array.
Path = tuple[Any, ...]


@dataclass(frozen=True)
class Tree:
    """The leaves of a tree in order (arrays, and None where there is no gradient), and how to rebuild it."""

    leaves: list[Any]
    rebuild: Callable[[list[Any]], Any]
    paths: Callable[[], Sequence[Path]]
    #: Takes a tree of the same structure apart in the same order; raises ValueError if the structure is another.
    flatten_like: Callable[[Any], list[Any]]


def flatten(grads: Any) -> Tree:
    """Take gradients apart. A generator is consumed, once, and comes back as a list."""
    if isinstance(grads, Iterator | ValuesView):
        grads = list(grads)
    if grads is None or array_api_compat.is_array_api_obj(grads):
        return Tree(
            leaves=[grads],
            rebuild=lambda leaves: leaves[0],
            paths=lambda: [()],
            flatten_like=lambda other: [other],
        )
    if type(grads) in (list, tuple) and _all_leaves(grads):
        return Tree(
            leaves=list(grads),
            rebuild=type(grads),
            paths=lambda: [(index,) for index in range(len(grads))],
            flatten_like=lambda other: _listed(grads, other),
        )
    if type(grads) is dict and _all_leaves(grads.values()):
        keys = list(grads)
        return Tree(
            leaves=list(grads.values()),
            rebuild=lambda leaves: dict(zip(keys, leaves, strict=True)),
            paths=lambda: [(key,) for key in keys],
            flatten_like=lambda other: _keyed(keys, other),
        )
    return _flatten_nested(grads)


def included_indices(tree: Tree, need_clip: Any) -> list[int]:
    """The indices of the leaves that are included: they exist, and `need_clip` does not exclude them."""
    existing = [index for index, leaf in enumerate(tree.leaves) if leaf is not None]
    if need_clip is None:
        return existing
    if callable(need_clip):
        paths = tree.paths()
        what = "what `need_clip` returned for the leaf at {}"
        return [i for i in existing if _flag(need_clip(paths[i], tree.leaves[i]), what.format(paths[i]))]
    try:
        flags = tree.flatten_like(need_clip)
    except (ValueError, TypeError, RecursionError) as error:
        message = f"`need_clip` must have the structure of the gradients, with True or False for each array: {error}"
        raise ValueError(message) from error
    return [index for index in existing if _flag(flags[index], "each flag in `need_clip`")]


def _flag(value: Any, what: str) -> bool:
    if isinstance(value, list | tuple | dict):
        message = f"`need_clip` must have the structure of the gradients, got {reprlib.repr(value)} for one array"
        raise ValueError(message)
    if not isinstance(value, bool | np.bool_):
        message = f"{what} must be True or False, got {reprlib.repr(value)} of type {type(value).__name__}"
        raise TypeError(message)
    return bool(value)


def _all_leaves(values: Collection[Any]) -> bool:
    return all(value is None or array_api_compat.is_array_api_obj(value) for value in one_of_each_type(values))


def one_of_each_type(values: Collection[Any]) -> list[Any]:
    """The first value of each type: a model has thousands of gradients, and one type of them."""
    return [next(value for value in values if type(value) is kind) for kind in set(map(type, values))]


def _listed(grads: Sequence[Any], other: Any) -> list[Any]:
    flags = list(other) if isinstance(other, list | tuple | Iterator | ValuesView) else None
    if flags is None or len(flags) != len(grads):
        got = reprlib.repr(other) if flags is None else f"one of length {len(flags)}"
        message = f"the sequence of gradients has the length {len(grads)}, got {got}"
        raise ValueError(message)
    return flags


def _keyed(keys: list[Any], other: Any) -> list[Any]:
    if not isinstance(other, dict) or other.keys() != set(keys):
        message = f"the gradients have the keys {keys}, got {reprlib.repr(other)}"
        raise ValueError(message)
    return [other[key] for key in keys]


def _flatten_nested(grads: Any) -> Tree:
    try:
        import optree
    except ImportError:
        flat = type(grads) in (list, tuple, dict)
        values = (grads.values() if type(grads) is dict else grads) if flat else [grads]
        other = next(x for x in values if not (x is None or array_api_compat.is_array_api_obj(x)))
        kind = type(other).__name__
        article = "an" if kind[0] in "aeiou" else "a"
        message = (
            f"`grads` must be an array, or a flat list, tuple or dict of arrays and None; it "
            f"{'holds' if flat else 'is'} {article} {kind}; make a number an array, or install optree for "
            f"nested trees: pip install 'gradclip-spec[trees]'"
        )
        raise TypeError(message) from None
    try:
        leaves, structure = optree.tree_flatten(grads, none_is_leaf=True)
    except RecursionError as error:
        message = f"`grads` is nested deeper than {optree.MAX_RECURSION_DEPTH} levels, or holds itself"
        raise ValueError(message) from error
    return Tree(leaves, rebuild=structure.unflatten, paths=structure.paths, flatten_like=structure.flatten_up_to)
