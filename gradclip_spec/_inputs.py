"""Check the numbers and switches that callers pass, take trees of gradients apart, and define the types of both.

Every check returns the value in the form that the rest of the package uses, or raises an error. The error names the
argument, the given value, and a valid alternative. All checks run before any gradient is read.
"""

import functools
import itertools
import math
import numbers
import reprlib
from collections import OrderedDict, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence, ValuesView
from typing import Any, ParamSpec, TypeAlias, TypeVar, cast

import array_api_compat
import numpy as np

from gradclip_spec._formats import name_dtypes

#: An array of any library that array-api-compat knows. The libraries share no base class.
Array: TypeAlias = Any

#: A tree of gradients: an array, None, or a container of such trees.
ArrayTree: TypeAlias = Any

#: The type of a tree that is passed. The clipped tree has the same type.
T = TypeVar("T")

#: Which gradients are included: a tree of flags, a predicate of path and array, or a set of names to exclude.
NeedClip: TypeAlias = Callable[[str, Array], bool] | Iterable[Any] | bool | None

P = ParamSpec("P")
R = TypeVar("R")

#: For each argument, by its name here: the names that other libraries give it.
_OTHER_NAMES = {
    "clip_norm": ("max_norm", "max_grad_norm", "threshold", "c"),
    "clip_factor": ("clipping", "factor"),
    "params": ("parameters", "weights"),
    "axis": ("unit_axis", "dim"),
    "max": ("clip_value", "max_value", "clip_value_max", "max_delta", "upper"),
    "min": ("min_value", "clip_value_min", "lower"),
    "norm_type": ("p", "ord", "norm"),
    "eps": ("epsilon",),
    "inplace": ("in_place", "out"),
    "error_if_nonfinite": ("check_isfinite", "error_on_nonfinite"),
    "need_clip": ("mask", "exclude", "need_clips", "param_filter"),
}


def explain_names(function: Callable[P, R]) -> Callable[P, R]:
    """Make a function explain unknown keywords, and refuse switches that are not bool.

    If a caller uses the keyword of another library, the error names the keyword of this one. A switch that is not a
    bool, but truthy or falsy, is a mistake of the caller.
    """
    code = cast(Any, function).__code__
    names = sorted(code.co_varnames[1 : code.co_argcount + code.co_kwonlyargcount])

    @functools.wraps(function)
    def call_checked(*args: P.args, **kwargs: P.kwargs) -> R:
        for name, value in kwargs.items():
            if name not in names:
                message = f"{code.co_name}() has no argument `{name}`; {_explain(names, name)}"
                raise TypeError(message)
            if name in ("inplace", "error_if_nonfinite") and not isinstance(value, bool):
                message = f"`{name}` must be True or False, got {value!r}"
                raise TypeError(message)
        return function(*args, **kwargs)

    return call_checked


def _explain(names: list[str], name: str) -> str:
    if name in ("grads", "parameters", "gradients", "t_list", "updates"):
        return "the gradients are the first argument, without a name"
    if name == "foreach":
        return "it always works on all arrays together; leave it out"
    own = next((own for own in names if name in _OTHER_NAMES.get(own, ())), None)
    return f"here it is called `{own}`" if own else f"it has {', '.join(f'`{each}`' for each in names)}"


#: The condition on each number, and a hint for the error.
_WANTED = {
    "clip_norm": ("a number that is zero or more", "infinity is the threshold that clips nothing"),
    "max_norm": ("a number that is zero or more", "infinity is the threshold that clips nothing"),
    "clip_factor": ("a number that is zero or more", "infinity is the threshold that clips nothing"),
    "eps": ("a finite number that is zero or more", "leave it out for the plain formula"),
    "norm_type": ("a number above zero", "use 2, 1 or float('inf')"),
    "max": ("a number", ""),
    "min": ("a number", ""),
}
#: Types that are refused, although Python or NumPy counts them as numbers. A bool in place of a threshold usually shows
#: that the threshold was left out. A NumPy duration has a unit.
_NO_NUMBERS = (bool, np.timedelta64)
#: `numbers.Real` covers float and int, too, but a check for it is much slower.
_NUMBERS = (float, int, numbers.Real)


def check_number(name: str, value: Any) -> float:
    """Return an argument as a float. Refuse it if it breaks the condition that `_WANTED` sets for its name."""
    if type(value) in (float, int) and 0 <= value < 2.0**60 and (value or name != "norm_type"):
        # This is the common case, and breaks no condition. The sum drops the sign of a zero.
        return float(value) + 0.0
    wanted, hint = _WANTED[name]
    if isinstance(value, _NO_NUMBERS) or not isinstance(value, _NUMBERS):
        got = f"{value!r} of type {type(value).__name__}; convert it with float(), outside of traced code"
        message = f"`{name}` must be {wanted}, got {got}"
        raise TypeError(message)
    try:
        # Drop the sign of a zero, which would become the sign of every element.
        number = float(value) + 0.0
    except OverflowError:
        number = -math.inf if cast(Any, value) < 0 else math.inf
    # Python raises an error for a number that no float holds. NumPy returns infinity.
    if abs(number) == math.inf and number != value:
        # Python refuses to print an integer of thousands of digits.
        beyond = "below -1.8e+308; give a greater one" if value < 0 else "above 1.8e+308; use float('inf')"
        message = f"`{name}` must be {wanted} within the range of a float, got one {beyond}"
        raise ValueError(message)
    # Compare the value itself, because a number barely below zero becomes zero as a float.
    bad = name in ("clip_norm", "max_norm", "clip_factor", "eps") and not cast(Any, value) >= 0
    if bad or (name == "eps" and number == math.inf) or (name == "norm_type" and not number > 0):
        message = f"`{name}` must be {wanted}, got {reprlib.repr(value)}; {hint}"
        raise ValueError(message)
    # For a larger p, the p-th root of the number of elements is 1, however many elements there are.
    return math.inf if name == "norm_type" and number > 2.0**60 else number


def check_bounds(max: Any, min: Any) -> tuple[float, float]:
    """Return the lower and the upper bound of a clip by value. `min` defaults to `-max`."""
    upper = check_number("max", max)
    lower = -upper if min is None else check_number("min", min)
    if min is None and not max >= 0:
        message = f"`max` must be zero or more when `min` is left out, got {reprlib.repr(max)}; give both"
        raise ValueError(message)
    if min is not None and not min <= max:
        got = f"min={reprlib.repr(min)} and max={reprlib.repr(max)}; `max` comes first"
        message = f"`min` must be at most `max` and neither may be NaN, got {got}"
        raise ValueError(message)
    return lower, upper


def check_contributions(rows: Any, dtype: str) -> None:
    """Refuse an array that does not hold one row of four numbers, in the named dtype, for each rank.

    A conversion to float32 would lose the range of the numbers: the norm would be NaN or infinite. JAX makes it where
    64 bits are switched off and the rows meet another array.
    """
    shape = getattr(rows, "shape", None)
    if shape is None or len(shape) != 2 or shape[1] != 4:
        message = f"`contributions` holds a row of 4 numbers for each rank, got the shape {shape}"
        raise ValueError(message)
    found = name_dtypes(array_api_compat.array_namespace(rows), [rows])[rows.dtype]
    if found != dtype:
        message = f"`contributions` holds what `norm_contribution` returns, in {dtype}, got {found}"
        if dtype == "float64":
            message += "; only gather the rows, or in JAX switch 64 bits on (`jax.enable_x64`)"
        raise ValueError(message)


#: The types of leaves that need not be examined: NumPy's arrays, and None.
_NUMPY = frozenset([np.ndarray, type(None)])


class Tree:
    """The leaves of a tree of gradients in order, and which of them are included.

    Nested lists, tuples, named tuples and dicts are taken apart here. The library optree takes other containers apart;
    it is imported only for such a container.
    """

    def __init__(self, grads: Any, need_clip: Any) -> None:
        self._grads = _read_once(grads)
        self._structure: Any = None
        try:
            #: Arrays, or None if there is no gradient.
            self.leaves = _list_leaves(self._grads)
        except RecursionError:
            message = "`grads` is nested too deep, or holds itself; give it as a flat list or dict"
            raise ValueError(message) from None
        #: Whether all arrays are NumPy's, and none of a subclass.
        self.only_numpy = set(map(type, self.leaves)) <= _NUMPY
        if not self.only_numpy:
            for leaf in dict(zip(map(type, self.leaves), self.leaves, strict=True)).values():
                if leaf is not None and not array_api_compat.is_array_api_obj(leaf):
                    self.leaves = self._flatten_others(leaf)
                    break
        existing = [index for index, leaf in enumerate(self.leaves) if leaf is not None]
        #: The indices of the leaves that are included.
        self.indices = existing if need_clip is None else self._choose(existing, need_clip)
        #: The included arrays.
        self.included = [self.leaves[index] for index in self.indices]

    def pick_once(self) -> list[Any]:
        """Return each included array once, so that a clip in place does not scale a repeated array twice."""
        once = dict(zip(map(id, self.included), self.included, strict=True))
        return self.included if len(once) == len(self.included) else list(once.values())

    def rebuild(self, arrays: Sequence[Any]) -> Any:
        """Return the tree with the included arrays replaced. Everything else is the same object."""
        leaves = list(arrays)
        if len(leaves) < len(self.leaves):
            leaves = list(self.leaves)
            for index, array in zip(self.indices, arrays, strict=True):
                leaves[index] = array
        if self._structure is not None:
            return self._structure.unflatten(leaves)
        return _rebuild(self._grads, iter(leaves))

    def name(self, index: int) -> str:
        """Return the name of a leaf for an error."""
        path = self._describe(index)
        return f"the gradient at {path!r}" if path else "the gradient"

    def _describe(self, index: int) -> str:
        """Return the path of a leaf: the keys and indices that lead to it, joined by dots."""
        return ".".join(map(str, self._paths[index]))

    @functools.cached_property
    def _paths(self) -> list[tuple[Any, ...]]:
        return [path for path, _ in self._list_items(self._grads)]

    def _flatten_others(self, strange: Any) -> list[Any]:
        try:
            import optree
        except ImportError:
            kind = type(strange).__name__
            message = (
                f"`grads` must be an array, or a list, tuple or dict of arrays and None, nested or not; it "
                f"{'is' if strange is self._grads else 'holds'} {'an' if kind[0] in 'aeiou' else 'a'} {kind}; make a "
                f"number an array, or install optree for other containers: pip install 'gradclip-spec[trees]'"
            )
            raise TypeError(message) from None
        leaves, self._structure = optree.tree_flatten(self._grads, none_is_leaf=True)
        return list(leaves)

    def _choose(self, existing: list[int], need_clip: Any) -> list[int]:
        if callable(need_clip):
            flags = {index: need_clip(self._describe(index), self.leaves[index]) for index in existing}
        elif isinstance(need_clip, set | frozenset) and all(isinstance(name, str) for name in need_clip):
            flags = self._exclude(need_clip)
        else:
            flags = self._match(need_clip)
        for index in existing:
            if not isinstance(flags[index], bool | np.bool_):
                got = f"{reprlib.repr(flags[index])} of type {type(flags[index]).__name__}"
                message = f"`need_clip` of {self.name(index)} must be True or False, got {got}"
                raise TypeError(message)
        return [index for index in existing if flags[index]]

    def _exclude(self, names: Collection[str]) -> dict[int, bool]:
        """Return False for the leaves that have one of the names, or that are below such a name."""
        paths = [self._describe(index) for index in range(len(self.leaves))]
        flags = dict.fromkeys(range(len(paths)), True)
        for name in sorted(names):
            below = [index for index, path in enumerate(paths) if f"{path}.".startswith(f"{name}.")]
            if not below:
                some = ", ".join(map(repr, paths[:5])) + (", ..." if len(paths) > 5 else "")
                message = f"`need_clip` excludes {name!r}, but no gradient has this name; there are {some}"
                raise ValueError(message)
            flags.update(dict.fromkeys(below, False))
        return flags

    def _match(self, flags: Any) -> dict[int, Any]:
        """Return the flag at the place of each leaf."""
        flags = _read_once(flags)
        try:
            by_path = dict(self._list_items(flags))
        except RecursionError:
            by_path = {}
        if by_path.keys() != set(self._paths):
            got = f"keys or lengths differ, got {reprlib.repr(flags)}"
            message = f"`need_clip` must have the structure of the gradients, with True or False for each array; {got}"
            raise ValueError(message)
        return {index: by_path[path] for index, path in enumerate(self._paths)}

    def _list_items(self, tree: Any) -> Iterable[tuple[Any, Any]]:
        if self._structure is None:
            return _list_items(tree)
        import optree

        paths, leaves, _ = optree.tree_flatten_with_path(tree, none_is_leaf=True)
        return zip(paths, leaves, strict=True)


def _check_container(kind: Any) -> bool:
    known = (list, tuple, dict, OrderedDict, defaultdict)
    return kind in known or (issubclass(kind, tuple) and hasattr(kind, "_fields"))


#: Whether a type is a container that is taken apart here.
_is_container: Callable[[Any], bool] = functools.cache(_check_container)


def _read_once(tree: Any) -> Any:
    """Return a list of what a generator or the `values()` of a dict yields, and any other tree itself."""
    # Containers come first, because a check for an abstract class is slow.
    if _is_container(type(tree)) or not isinstance(tree, Iterator | ValuesView):
        return tree
    return list(tree)


def _list_leaves(node: Any) -> list[Any]:
    if not _is_container(type(node)):
        return [node]
    children = list(node.values() if isinstance(node, dict) else node)
    if not any(map(_is_container, set(map(type, children)))):
        # This is the common case: there may be thousands of arrays.
        return children
    return [leaf for child in children for leaf in _list_leaves(child)]


def _list_items(node: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[tuple[Any, ...], Any]]:
    """Yield each leaf, preceded by the keys and indices that lead to it."""
    if not _is_container(type(node)):
        yield path, node
        return
    keys = node if isinstance(node, dict) else getattr(node, "_fields", itertools.count())
    for key, child in zip(keys, node.values() if isinstance(node, dict) else node, strict=False):
        yield from _list_items(child, (*path, key))


def _rebuild(node: Any, leaves: Iterator[Any]) -> Any:
    """Return a tree of the same structure with other leaves."""
    kind = type(node)
    if not _is_container(kind):
        return next(leaves)
    members = node.values() if isinstance(node, dict) else node
    nested = any(map(_is_container, set(map(type, members))))
    children = [_rebuild(child, leaves) for child in members] if nested else list(itertools.islice(leaves, len(node)))
    if kind is list:
        return children
    if kind is defaultdict:
        return defaultdict(node.default_factory, zip(node, children, strict=True))
    if isinstance(node, dict):
        return kind(zip(node, children, strict=True))
    return kind(*children) if hasattr(kind, "_fields") else kind(children)
