"""What callers pass: numbers and switches are checked here, and trees of gradients are taken apart.

Every check returns the value in the one form that the rest of the package works with, or raises an error that names
the argument, says what was given, and says what to give instead. They run before a gradient is looked at.
"""

import functools
import math
import numbers
import reprlib
from collections import OrderedDict, defaultdict
from collections.abc import Callable, Collection, Iterator, Sequence, ValuesView
from typing import Any, ParamSpec, TypeVar, cast

import array_api_compat
import numpy as np

__all__ = [
    "Tree",
    "check_bounds",
    "check_number",
    "check_switches",
    "explain_names",
    "pick_each_type",
]

P = ParamSpec("P")
R = TypeVar("R")

#: What other libraries call an argument, and what it is called here.
_OTHER_NAMES = {
    **dict.fromkeys(("max_norm", "max_grad_norm", "threshold", "c"), "clip_norm"),
    **dict.fromkeys(("clip_value", "max_value", "clip_value_max", "max_delta", "upper"), "max"),
    **dict.fromkeys(("min_value", "clip_value_min", "lower"), "min"),
    **dict.fromkeys(("p", "ord", "norm"), "norm_type"),
    **dict.fromkeys(("epsilon",), "eps"),
    **dict.fromkeys(("in_place", "out"), "inplace"),
    **dict.fromkeys(("check_isfinite", "error_on_nonfinite"), "error_if_nonfinite"),
    **dict.fromkeys(("mask", "exclude", "need_clips", "param_filter"), "need_clip"),
}


def explain_names(function: Callable[P, R]) -> Callable[P, R]:
    """Make a function answer a keyword of another library with its own name for it."""
    code = cast(Any, function).__code__
    names = frozenset(code.co_varnames[1 : code.co_argcount + code.co_kwonlyargcount])

    @functools.wraps(function)
    def checked(*args: P.args, **kwargs: P.kwargs) -> R:
        if not kwargs.keys() <= names:
            raise TypeError(_explain(code.co_name, names, next(name for name in kwargs if name not in names)))
        return function(*args, **kwargs)

    return checked


def _explain(function: str, names: Collection[str], name: str) -> str:
    if name in ("grads", "parameters", "gradients", "t_list", "updates"):
        return f"{function}() takes the gradients as its first argument, without a name; got `{name}=`"
    if name == "foreach":
        return f"{function}() has no argument `foreach`: it always works on all arrays together; leave it out"
    own = _OTHER_NAMES.get(name)
    hint = (
        f"here it is called `{own}`" if own in names else f"it has {', '.join(f'`{each}`' for each in sorted(names))}"
    )
    return f"{function}() has no argument `{name}`; {hint}"


def check_number(name: str, value: Any) -> float:
    """Return an argument as a float: any bound, a threshold or `eps` that is zero or more, a `norm_type` above zero."""
    wanted, hint = _WANTED[name]
    # A bool is a number to Python; as a threshold it is a mistake, usually one argument too far to the left.
    # A duration is one to NumPy.
    if isinstance(value, bool | np.timedelta64) or not isinstance(value, numbers.Real):
        message = (
            f"`{name}` must be {wanted}, got {value!r} of type {type(value).__name__}; convert it with float(), "
            f"outside of what is traced"
        )
        raise TypeError(message)
    try:
        # Zero without a sign, which would be that of every element.
        number = float(value) + 0.0
    except OverflowError:
        number = -math.inf if cast(Any, value) < 0 else math.inf
    # Python raises for a number that no float holds, NumPy returns infinity.
    if abs(number) == math.inf and number != value:
        # Python writes out no integer of thousands of digits.
        beyond = "below -1.8e+308; give a greater one" if value < 0 else "above 1.8e+308; use float('inf')"
        message = f"`{name}` must be {wanted} that a float holds, got one {beyond}"
        raise ValueError(message)
    # The value itself, because what is barely below zero becomes zero as a float.
    bad = name in ("clip_norm", "max_norm", "eps") and not cast(Any, value) >= 0
    if bad or (name == "eps" and number == math.inf) or (name == "norm_type" and not number > 0):
        message = f"`{name}` must be {wanted}, got {_show(value)}; {hint}"
        raise ValueError(message)
    # Beyond, the p-th root of the number of elements is 1, however many there are.
    return math.inf if name == "norm_type" and number > 2.0**60 else number


_WANTED = {
    **dict.fromkeys(
        ("clip_norm", "max_norm"), ("a number that is zero or more", "infinity is the threshold that clips nothing")
    ),
    "eps": ("a finite number that is zero or more", "leave it out for the plain formula"),
    "norm_type": ("a number above zero", "use 2, 1 or float('inf')"),
    **dict.fromkeys(("max", "min"), ("a number", "")),
}


def check_bounds(max: Any, min: Any) -> tuple[float, float]:
    """Return the lower and the upper bound of a clip by value, `min` defaulting to `-max`."""
    upper = check_number("max", max)
    if min is None and not max >= 0:
        message = (
            f"`max` must be zero or more when `min` is left to be its negative, got {_show(max)}; give `min` as well"
        )
        raise ValueError(message)
    lower = -upper if min is None else check_number("min", min)
    if min is not None and not min <= max:
        message = (
            f"`min` must be at most `max` and neither may be NaN, got min={_show(min)} and max={_show(max)}; `max` "
            f"comes first"
        )
        raise ValueError(message)
    return lower, upper


def check_switches(**switches: Any) -> None:
    """Refuse a switch that is not True or False, but something that merely counts as such."""
    for name, value in switches.items():
        if not isinstance(value, bool):
            message = f"`{name}` must be True or False, got {value!r}"
            raise TypeError(message)


def _show(value: Any) -> str:
    try:
        return repr(value)
    except ValueError:
        # Python writes out no integer of thousands of digits, of which a fraction may be made.
        return f"a {type(value).__name__} of more digits than Python writes out"


class Tree:
    """The leaves of a tree of gradients in order, and which of them are included.

    Lists, tuples, named tuples and dicts, nested ones too, are taken apart here. Other containers are left to the
    library optree, which is imported only when one is met.
    """

    def __init__(self, grads: Any, need_clip: Any) -> None:
        self._grads = grads
        self._structure: Any = None
        if isinstance(grads, Iterator | ValuesView):
            self._grads = grads = list(grads)
        kind = type(grads)
        # Flat, which nearly everyone has.
        self._flat = kind in (list, tuple, dict) and all(
            map(_is_leaf, pick_each_type(grads.values() if kind is dict else grads))
        )
        #: Arrays, and None where there is no gradient.
        self.leaves = list(grads.values() if kind is dict else grads) if self._flat else self._flatten()
        existing = [index for index, leaf in enumerate(self.leaves) if leaf is not None]
        #: The indices of the leaves that are included.
        self.indices = existing if need_clip is None else self._choose(existing, need_clip)
        #: The included arrays.
        self.included = [self.leaves[index] for index in self.indices]

    def pick_once(self) -> list[Any]:
        """Return each included array once: in place, one that stands in the tree twice is not to be scaled twice."""
        once = {id(x): x for x in self.included}
        return self.included if len(once) == len(self.included) else list(once.values())

    def rebuild(self, arrays: Sequence[Any]) -> Any:
        """Return the tree with the included arrays replaced; everything else is the very same object."""
        leaves = list(arrays)
        if len(leaves) < len(self.leaves):
            leaves = list(self.leaves)
            for index, array in zip(self.indices, arrays, strict=True):
                leaves[index] = array
        if self._flat and type(self._grads) is list:
            return leaves
        if self._structure is not None:
            return self._structure.unflatten(leaves)
        return _fill(self._grads, leaves) if self._flat else _rebuild(self._grads, iter(leaves))

    def describe(self, index: int) -> str:
        """Return where a leaf stands: the keys and indices that lead to it, with dots between."""
        return self._paths[index]

    @functools.cached_property
    def _paths(self) -> list[str]:
        if self._structure is not None:
            return [".".join(map(str, path)) for path in self._structure.paths()]
        return [".".join(map(str, path)) for path in _list_paths(self._grads)]

    def _flatten(self) -> list[Any]:
        try:
            leaves = list(_list_leaves(self._grads))
            strange = [leaf for leaf in pick_each_type(leaves) if not _is_leaf(leaf)]
            return self._flatten_others(strange[0], leaves[0] is not self._grads) if strange else leaves
        except RecursionError:
            message = "`grads` is nested too deep, or holds itself; give it as a flat list or dict"
            raise ValueError(message) from None

    def _flatten_others(self, strange: Any, holds: bool) -> list[Any]:
        try:
            import optree
        except ImportError:
            kind = type(strange).__name__
            message = (
                f"`grads` must be an array, or a list, tuple or dict of arrays and None, nested or not; it "
                f"{'holds' if holds else 'is'} {'an' if kind[0] in 'aeiou' else 'a'} {kind}; make a number an array, "
                f"or install optree for other containers: pip install 'gradclip-spec[trees]'"
            )
            raise TypeError(message) from None
        leaves, self._structure = optree.tree_flatten(self._grads, none_is_leaf=True)
        return list(leaves)

    def _choose(self, existing: list[int], need_clip: Any) -> list[int]:
        if callable(need_clip):
            return [
                index
                for index in existing
                if _check_flag(
                    need_clip(self.describe(index), self.leaves[index]), f"`need_clip` of {self.name(index)}"
                )
            ]
        if isinstance(need_clip, set | frozenset) and all(isinstance(name, str) for name in need_clip):
            return self._exclude(existing, need_clip)
        try:
            if self._structure is not None:
                flags = self._structure.flatten_up_to(need_clip)
            else:
                flags = list(_list_flags(self._grads, need_clip))
        except (ValueError, TypeError, RecursionError) as error:
            message = (
                f"`need_clip` must have the structure of the gradients, with True or False for each array: {error}"
            )
            raise ValueError(message) from error
        return [index for index in existing if _check_flag(flags[index], f"the flag of {self.name(index)}")]

    def _exclude(self, existing: list[int], names: Collection[str]) -> list[int]:
        """Return the indices of the leaves that neither have one of the names nor stand below one that has."""
        excluded = {name: {i for i in existing if f"{self.describe(i)}.".startswith(f"{name}.")} for name in names}
        for name in sorted(names):
            if not excluded[name] and name not in self._paths:
                some = ", ".join(map(repr, self._paths[:5])) + (", ..." if len(self._paths) > 5 else "")
                message = f"`need_clip` names {name!r} to be excluded, and no gradient is called that; there are {some}"
                raise ValueError(message)
        return [index for index in existing if not any(index in each for each in excluded.values())]

    def name(self, index: int) -> str:
        """Return words for a leaf that an error is about."""
        path = self.describe(index)
        return f"the gradient at {path!r}" if path else "the gradient"


def pick_each_type(values: Collection[Any]) -> list[Any]:
    """Return the first value of each type: a model has thousands of gradients, and one type of them."""
    return [next(value for value in values if type(value) is kind) for kind in set(map(type, values))]


def _is_leaf(value: Any) -> bool:
    return value is None or bool(array_api_compat.is_array_api_obj(value))


def _list_children(node: Any) -> list[Any] | None:
    """Return what a container holds, None of anything else."""
    kind = type(node)
    if kind in (list, tuple) or (issubclass(kind, tuple) and hasattr(kind, "_fields")):
        return list(node)
    return list(node.values()) if kind in (dict, OrderedDict, defaultdict) else None


def _list_leaves(node: Any) -> Iterator[Any]:
    children = None if _is_leaf(node) else _list_children(node)
    if children is None:
        yield node
        return
    for child in children:
        yield from _list_leaves(child)


def _list_keys(node: Any) -> Sequence[Any]:
    return list(node) if isinstance(node, dict) else getattr(node, "_fields", range(len(node)))


def _list_paths(node: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    children = None if _is_leaf(node) else _list_children(node)
    if children is None:
        yield path
        return
    for key, child in zip(_list_keys(node), children, strict=True):
        yield from _list_paths(child, (*path, key))


def _rebuild(node: Any, leaves: Iterator[Any]) -> Any:
    children = None if _is_leaf(node) else _list_children(node)
    return next(leaves) if children is None else _fill(node, [_rebuild(child, leaves) for child in children])


def _fill(node: Any, children: list[Any]) -> Any:
    """Return a container like another, of other children."""
    if type(node) is defaultdict:
        return defaultdict(node.default_factory, zip(node, children, strict=True))
    if isinstance(node, dict):
        return type(node)(zip(node, children, strict=True))
    return type(node)(*children) if hasattr(node, "_fields") else type(node)(children)


def _list_flags(node: Any, flags: Any) -> Iterator[Any]:
    children = None if _is_leaf(node) else _list_children(node)
    if children is None:
        yield flags
        return
    if isinstance(node, dict):
        if not isinstance(flags, dict) or flags.keys() != node.keys():
            message = f"the gradients have the keys {list(node)}, got {reprlib.repr(flags)}"
            raise ValueError(message)
        flags = [flags[key] for key in node]
    listed = list(flags) if isinstance(flags, list | tuple | Iterator | ValuesView) else None
    if listed is None or len(listed) != len(children):
        got = reprlib.repr(flags) if listed is None else f"one of length {len(listed)}"
        message = f"the sequence of gradients has the length {len(children)}, got {got}"
        raise ValueError(message)
    for child, flag in zip(children, listed, strict=True):
        yield from _list_flags(child, flag)


def _check_flag(value: Any, what: str) -> bool:
    if isinstance(value, list | tuple | dict):
        message = f"`need_clip` must have the structure of the gradients, got {reprlib.repr(value)} for one array"
        raise ValueError(message)
    if not isinstance(value, bool | np.bool_):
        message = f"{what} must be True or False, got {reprlib.repr(value)} of type {type(value).__name__}"
        raise TypeError(message)
    return bool(value)
