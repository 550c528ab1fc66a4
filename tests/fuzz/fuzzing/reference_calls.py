"""Make calls of the reference from JSON, and check their results."""

from __future__ import annotations

import decimal
import fractions
import itertools
import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

import gradclip_spec

from .long_doubles import agree, clip_by_norm, clip_by_value, compute_norm
from .target import Find, require

__all__ = ["ReferenceCall", "check_result"]

#: The documented error in ulp, plus one rounding of the check itself.
NORM_ULPS, ELEMENT_ULPS = 1.5, 3.5
#: The same error for orders whose powers NumPy computes within a few ulp.
POWER_ULPS = 64.0
#: Orders for which no power overflows and every element counts.
CHECKED_ORDERS = (0.5, 100.0)

STRANGE: dict[str, Callable[[], Any]] = {
    "none": lambda: None,
    "number": lambda: 3,
    "float": lambda: 1.5,
    "text": lambda: "text",
    "object": lambda: np.array([None, "x"], dtype=object),
    "masked": lambda: np.ma.masked_array([1.0, 2.0], [True, False]),
    "int64": lambda: np.array([1, 2]),
    "complex128": lambda: np.array([1j]),
    "longdouble": lambda: np.array([1.0], np.longdouble),
    "matrix": lambda: np.array([[1.0]]).view(np.matrix),
    "list": lambda: [[1.0, 2.0]],
    "set": lambda: {1.0},
    "array": lambda: np.array(1.0),
    "fraction": lambda: fractions.Fraction(1, 3),
    "decimal": lambda: decimal.Decimal("1.5"),
    "complex": lambda: 1 + 0j,
}


class Generated(Iterator[Any]):
    """An iterator that can be consumed once and remembers its items."""

    def __init__(self, held: list[Any]) -> None:
        self.held = held
        self._iterator = iter(held)

    def __next__(self) -> Any:
        return next(self._iterator)


class UsersOwn(Exception):
    """An error of the user's own predicate, which must reach the caller unchanged."""


def _make_array(given: dict[str, Any]) -> Any:
    count = math.prod(given["shape"])
    with np.errstate(over="ignore"):
        values = np.resize(np.array(given["values"], np.float64), count).astype(given["dtype"]).reshape(given["shape"])
    match given["layout"]:
        case "strided" if values.ndim:
            return np.repeat(values, 2, axis=-1)[..., ::2]
        case "reversed" if values.ndim:
            return values[(slice(None, None, -1),) * values.ndim]
        case "fortran":
            return np.asfortranarray(values)
        case "readonly":
            values.flags.writeable = False
        case "broadcast":
            return np.broadcast_to(values, (2, *values.shape))
    return values


def _make_tree(given: Any, leaf: Callable[[Any], Any]) -> Any:
    if isinstance(given, dict) and len(given) == 1:
        ((kind, inner),) = given.items()
        if kind == "dict":
            return {key: _make_tree(value, leaf) for key, value in inner}
        made = [_make_tree(each, leaf) for each in inner]
        return {"list": list, "tuple": tuple, "generator": Generated}[kind](made)
    return leaf(given)


def _make_leaf(given: Any) -> Any:
    return _make_array(given) if isinstance(given, dict) else STRANGE[given]()


class ReferenceCall:
    """A call: its function, its arguments, and copies of them."""

    def __init__(self, example: dict[str, Any]) -> None:
        self.name = example["function"]
        self.arrays: list[Any] = []
        self.strange = False
        self.flags: list[bool] = []
        self._cycle = itertools.cycle(example["included"])
        self.grads = self._wrap(_make_tree(example["grads"], self._keep), example["deep"])
        self.depth = example["deep"]
        self.options = {
            name: self._make_argument(value)
            for name, value in example["options"].items()
            if name in self._list_options()
        }
        self.first = self._make_argument(example["first"])
        self._choose_flags(example)
        self._before = [array.copy() for array in self.arrays]

    @property
    def documented(self) -> tuple[type[BaseException], ...]:
        """Return the errors that the call may raise."""
        nonfinite = self.options.get("error_if_nonfinite") is True
        return (TypeError, ValueError, UsersOwn, *([FloatingPointError] if nonfinite else []))

    def make(self) -> Any:
        """Make the call."""
        arguments = () if self.name == "global_norm" else (self.first,)
        return getattr(gradclip_spec, self.name)(self.grads, *arguments, **self.options)

    def is_unchanged(self) -> bool:
        """Return whether all arguments hold the same values as before the call."""
        return all(now.tobytes() == before.tobytes() for now, before in zip(self.arrays, self._before, strict=True))

    def get_before(self, array: Any) -> Any:
        """Return the values of an array before the call."""
        return next(then for now, then in zip(self.arrays, self._before, strict=True) if now is array)

    def list_included(self) -> Iterator[Any]:
        """Yield the arrays that are included."""
        return (array for array, flag in zip(self.arrays, self.flags, strict=True) if flag)

    def _list_options(self) -> tuple[str, ...]:
        return {
            "clip_by_value": ("min", "inplace"),
            "clip_by_norm": ("norm_type", "eps", "inplace"),
            "clip_by_global_norm": ("norm_type", "eps", "error_if_nonfinite", "inplace"),
            "global_norm": ("norm_type",),
        }[self.name]

    def _keep(self, given: Any) -> Any:
        made = _make_leaf(given)
        if isinstance(given, dict):
            self.arrays.append(made)
            self.flags.append(next(self._cycle))
        else:
            self.strange |= given != "none"
        return made

    def _make_argument(self, value: Any) -> Any:
        return STRANGE[value]() if isinstance(value, str) else value

    def _wrap(self, tree: Any, depth: int) -> Any:
        for _ in range(depth):
            tree = [tree]
        return tree

    def _choose_flags(self, example: dict[str, Any]) -> None:
        chosen, cycle = example["flags"], itertools.cycle(example["included"])
        wanted: Any
        if chosen is None:
            self.flags = [True] * len(self.flags)
            return
        if chosen == "same":
            wanted = self._wrap(
                _make_tree(example["grads"], lambda leaf: next(cycle) if isinstance(leaf, dict) else None), self.depth
            )
        elif chosen == "function":
            by_id = dict(zip(map(id, self.arrays), self.flags, strict=True))
            wanted = lambda path, array: by_id.get(id(array), True)  # noqa: E731 - the one line that a user writes
        elif chosen in ("raises", "strange"):
            wanted = _raise if chosen == "raises" else lambda path, array: "yes"
        else:
            wanted = chosen if isinstance(chosen, bool) else _make_tree(chosen, _make_leaf)
            self.flags = [wanted is True] * len(self.flags)
        self.options["need_clip"] = wanted


def _raise(path: Any, array: Any) -> bool:
    msg = f"at {path!r}"
    raise UsersOwn(msg)


def check_result(call: ReferenceCall, result: Any) -> None:
    """Require that the result has the form of the argument, and the values of the formula."""
    if call.strange:
        return
    inplace = call.options.get("inplace") is True
    require(inplace or call.is_unchanged(), "the arguments have been changed")
    order = float(call.options.get("norm_type", 2))
    size = compute_norm([call.get_before(array) for array in call.list_included()], order)
    clipped = result
    if call.name in ("clip_by_global_norm", "global_norm"):
        total = result[1] if call.name == "clip_by_global_norm" else result
        _check_total(call, total, size, order)
        clipped = result[0] if call.name == "clip_by_global_norm" else None
    if clipped is None:
        return
    pairs = list(_list_pairs(call.grads, clipped, call.depth))
    require(len(pairs) == len(call.arrays) or inplace, f"{len(pairs)} arrays for {len(call.arrays)}")
    for passed, back in pairs:
        _check_array(call, passed, back, size, order)


def _check_total(call: ReferenceCall, total: Any, size: Any, order: float) -> None:
    wide = any(array.dtype == np.float64 for array in call.list_included())
    require(total.shape == () and total.dtype == (np.float64 if wide else np.float32), f"a norm of {total.dtype}")
    if CHECKED_ORDERS[0] <= order <= CHECKED_ORDERS[1] or order == math.inf:
        right = agree(np.asarray(total), np.asarray(size), NORM_ULPS if order in (1, 2, math.inf) else POWER_ULPS)
        require(right, f"the norm {total!r} is not {size!r}")


def _list_pairs(passed: Any, back: Any, depth: int) -> Iterator[tuple[Any, Any]]:
    """Yield each passed array with its result."""
    for _ in range(depth):
        require(type(back) is list and len(back) == 1, f"a list came back as {type(back)}")
        (passed,), (back,) = passed, back
    yield from _list_nested_pairs(passed, back)


def _list_nested_pairs(passed: Any, back: Any) -> Iterator[tuple[Any, Any]]:
    if passed is None:
        require(back is None, f"None came back as {type(back)}")
    elif isinstance(passed, np.ndarray):
        require(isinstance(back, np.ndarray | np.generic), f"an array came back as {type(back)}")
        yield passed, back
    elif isinstance(passed, dict):
        require(type(back) is dict and list(back) == list(passed), "the keys differ")
        for key in passed:
            yield from _list_nested_pairs(passed[key], back[key])
    elif isinstance(passed, list | tuple):
        require(type(back) is type(passed) and len(back) == len(passed), f"{type(passed)} came back as {type(back)}")
        for one, other in zip(passed, back, strict=True):
            yield from _list_nested_pairs(one, other)
    elif isinstance(passed, Generated):
        yield from _list_nested_pairs(passed.held, back)
    else:
        message = f"a {type(passed)} was treated as a tree"
        raise Find(message)


def _check_array(call: ReferenceCall, passed: Any, back: Any, size: Any, order: float) -> None:
    require((back.shape, back.dtype) == (passed.shape, passed.dtype), f"{passed!r} came back as {back!r}")
    given = call.get_before(passed)
    if not any(passed is array for array in call.list_included()):
        require(back is passed, "an excluded array is another object")
        require(back.tobytes() == given.tobytes(), "an excluded array has been changed")
        return
    if call.name == "clip_by_value":
        expected, ulps = clip_by_value(given, *_find_bounds(call)), 0.0
    else:
        if not (CHECKED_ORDERS[0] <= order <= CHECKED_ORDERS[1] or order == math.inf):
            return
        size = compute_norm([given], order) if call.name == "clip_by_norm" else size
        ulps = ELEMENT_ULPS if order in (1, 2, math.inf) else POWER_ULPS
        threshold = float(call.first)
        # Norms and thresholds that are not finite, or too large for float64, are not checked here.
        if not np.isfinite(size) or not math.isfinite(threshold) or size > np.finfo(np.float64).max:
            return
        expected = clip_by_norm(given, size, threshold, float(call.options.get("eps", 0.0)))
    require(agree(back, expected, ulps), f"{given!r} became {back!r} and not {expected!r}")


def _find_bounds(call: ReferenceCall) -> tuple[float, float]:
    lower = call.options.get("min")
    return -float(call.first) if lower is None else float(lower), float(call.first)
