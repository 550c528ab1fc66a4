"""An array library in which everything that the array API standard leaves open goes against us.

It wraps array-api-strict, as that wraps NumPy. Each :class:`Freedom` is one liberty that a library may take; a library
may take several of them, or all. What a library may not do stays right: `+`, `-`, `*`, `/` and `sqrt` are those of
IEEE 754, comparisons and `where` are exact, and NaN propagates: the standard lets `max` overlook a NaN of no real
floating-point number, so there is no freedom for that.
"""

from __future__ import annotations

import enum
import functools
import math
import operator
import types
import zlib
from collections.abc import Callable, Collection
from typing import Any

import array_api_strict as strict
import numpy as np


class Freedom(enum.Enum):
    """A liberty that the standard gives to a library."""

    POWERS_ONE_LOW = "pow, exp, log, log2 and exp2 are one ulp low, also where the result is a number of the format"
    POWERS_TWO_HIGH = "the same functions are two ulp high"
    POWERS_MIXED = "the same functions are up to two ulp low or high"
    FLUSHES_FLOAT32 = "arithmetic in float32 takes subnormal numbers for zero, and returns zero for them"
    FLUSHES_FLOAT64 = "arithmetic in float64 takes subnormal numbers for zero, and returns zero for them"
    SUMS_BACKWARDS = "sums are computed one after another, from the last element"
    SUMS_SHUFFLED = "sums are computed one after another, in a random order"
    SUMS_HALVED = "sums are computed by adding halves"
    CONTRACTS = "a product that is added to something is not rounded (as a fused multiply-add)"
    UNHASHABLE = "devices and dtypes have no hash, and their texts say nothing"
    UNREADABLE = "arrays have no boolean value, and are not converted to Python's numbers"
    COPIES_SLICES = "writing into a slice of an array does not write into the array"
    IMMUTABLE = "arrays cannot be written into"


#: The freedoms of functions whose results the standard only approximates.
POWERS = frozenset(freedom for freedom in Freedom if freedom.name.startswith("POWERS"))

#: Operations that copy elements bit for bit. They flush nothing.
MOVING = {
    "asarray", "broadcast_arrays", "broadcast_to", "concat", "empty", "empty_like", "expand_dims", "flip", "full",
    "full_like", "isfinite", "isinf", "isnan", "moveaxis", "ones", "ones_like", "permute_dims", "repeat", "reshape",
    "roll", "squeeze", "stack", "take", "tile", "unstack", "where", "zeros", "zeros_like",
}  # fmt: skip

#: Functions whose results the standard only approximates.
APPROXIMATE = ("pow", "exp", "log", "log2", "exp2")

#: The errors of approximate functions that go one way, in ulp.
ONE_WAY = {Freedom.POWERS_ONE_LOW: -1, Freedom.POWERS_TWO_HIGH: 2}

#: The float formats in which a library computes, with their smallest normal numbers.
SMALLEST = {"float32": 2.0**-126, "float64": 2.0**-1022}


class Array:
    """An array of the hostile library."""

    def __init__(self, library: Library, inner: Any, product: tuple[Any, Any] | None = None) -> None:
        self._library = library
        self._inner = inner
        #: The factors, if the array is a product that has not been used yet.
        self._product = product

    def __array_namespace__(self, *, api_version: str | None = None) -> types.ModuleType:
        return self._library.namespace

    @property
    def dtype(self) -> Any:
        return self._library.wrap_dtype(self._inner.dtype)

    @property
    def device(self) -> Any:
        return self._library.wrap_device(self._inner.device)

    @property
    def shape(self) -> tuple[int, ...]:
        shape: tuple[int, ...] = self._inner.shape
        return shape

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def size(self) -> int:
        return math.prod(self.shape)

    def __getitem__(self, key: Any, /) -> Array:
        part = self._inner[self._library.unwrap(key)]
        return self._library.wrap(_copy(part) if Freedom.COPIES_SLICES in self._library.freedoms else part)

    def __setitem__(self, key: Any, value: Any, /) -> None:
        if Freedom.IMMUTABLE in self._library.freedoms:
            message = "arrays of this library cannot be written into"
            raise TypeError(message)
        self._inner[self._library.unwrap(key)] = self._library.unwrap(value)

    def _read(self, kind: Callable[[Any], Any]) -> Any:
        if Freedom.UNREADABLE in self._library.freedoms:
            message = "arrays of this library are not read"
            raise TypeError(message)
        return kind(self._inner)

    def __bool__(self) -> bool:
        return bool(self._read(bool))

    def __float__(self) -> float:
        return float(self._read(float))

    def __add__(self, other: Any, /) -> Any:
        return self._library.add(self, other, 1)

    def __radd__(self, other: Any, /) -> Any:
        return self._library.add(self, other, 1)

    def __sub__(self, other: Any, /) -> Any:
        return self._library.add(self, other, -1)

    def __rsub__(self, other: Any, /) -> Any:
        return self._library.add(-self, other, 1)

    def __mul__(self, other: Any, /) -> Any:
        return self._library.multiply(self, other)

    def __rmul__(self, other: Any, /) -> Any:
        return self._library.multiply(self, other)

    def __neg__(self) -> Any:
        negated = None if self._product is None else (-self._product[0], self._product[1])
        return Array(self._library, -self._inner, negated)

    __hash__ = None  # type: ignore[assignment]


def _add_operator(name: str) -> None:
    def operate(self: Array, *others: Any) -> Any:
        library = self._library
        result = getattr(library.flush(self._inner), name)(*(library.flush(library.unwrap(x)) for x in others))
        return result if result is NotImplemented else library.wrap(library.flush(result))

    setattr(Array, name, operate)


for _name in (
    *("truediv", "rtruediv", "abs", "and", "or", "invert"),
    *("lt", "le", "gt", "ge", "eq", "ne"),
):
    _add_operator(f"__{_name}__")


class Unhashable:
    """A device or dtype that can only be compared."""

    def __init__(self, inner: Any) -> None:
        self.inner = inner

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Unhashable) and bool(self.inner == other.inner)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return "<anything>"


class Library:
    """A library with some freedoms. `namespace` is what `__array_namespace__` returns."""

    def __init__(self, freedoms: Collection[Freedom]) -> None:
        self.freedoms = frozenset(freedoms)
        self.namespace = types.ModuleType("hostile")
        for name in strict.__all__:
            value = getattr(strict, name)
            if isinstance(value, strict._dtypes.DType):
                value = self.wrap_dtype(value)
            elif callable(value):
                value = self._adapt(name, value)
            setattr(self.namespace, name, value)
        self.namespace.__array_namespace_info__ = lambda: Information(self)  # type: ignore[attr-defined]

    def wrap_dtype(self, dtype: Any) -> Any:
        return Unhashable(dtype) if Freedom.UNHASHABLE in self.freedoms else dtype

    wrap_device = wrap_dtype

    def wrap(self, value: Any) -> Any:
        """Return a value of array-api-strict as one of this library."""
        if isinstance(value, strict._array_object.Array):
            return Array(self, value)
        if isinstance(value, list | tuple):
            items = [self.wrap(item) for item in value]
            return type(value)(*items) if hasattr(value, "_fields") else type(value)(items)
        return value

    def unwrap(self, value: Any) -> Any:
        """Return a value of this library as one of array-api-strict."""
        if isinstance(value, Array):
            return value._inner
        if isinstance(value, Unhashable):
            return value.inner
        if isinstance(value, list | tuple):
            return type(value)(self.unwrap(item) for item in value)
        return value

    def _adapt(self, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        moves = name in MOVING

        @functools.wraps(function)
        def call(*arguments: Any, **options: Any) -> Any:
            given = [self.unwrap(x) for x in arguments]
            named = {key: self.unwrap(x) for key, x in options.items()}
            if not moves:
                given = [self.flush(x) for x in given]
            if name == "sum" and _is_float(given[0]):
                return self.wrap(self.flush(self._sum(given[0], **named)))
            result = function(*given, **named)
            if name in APPROXIMATE:
                result = self._disturb(result)
            return self.wrap(result if moves else self.flush(result))

        # These three may be contracted.
        operators: dict[str, Callable[[Any, Any], Any]] = {
            "add": operator.add,
            "subtract": operator.sub,
            "multiply": operator.mul,
        }
        return operators.get(name, call)

    def flush(self, value: Any) -> Any:
        """Return an array with zeros in place of subnormal numbers, if the library flushes its dtype."""
        if not _is_float(value):
            return value
        for freedom, dtype in ((Freedom.FLUSHES_FLOAT32, "float32"), (Freedom.FLUSHES_FLOAT64, "float64")):
            if freedom in self.freedoms and value._array.dtype == dtype:
                elements = value._array
                tiny = np.abs(elements) < SMALLEST[dtype]
                return _make(np.where(tiny, np.copysign(elements.dtype.type(0), elements), elements), value)
        return value

    def _disturb(self, result: Any) -> Any:
        """Return an approximate result with an error of up to two ulp."""
        elements = result._array
        steps: Any = None
        if Freedom.POWERS_MIXED in self.freedoms:
            # The same argument has the same result, whatever the other elements are.
            bits = elements.astype(np.float64).ravel().view(np.uint64)
            steps = (bits * np.uint64(0x9E3779B97F4A7C15) >> np.uint64(61)).astype(np.int64) % 5 - 2
            steps = steps.reshape(elements.shape)
        else:
            for freedom, step in ONE_WAY.items():
                if freedom in self.freedoms:
                    steps = np.full(elements.shape, step)
        if steps is None or elements.dtype.kind != "f":
            return result
        moved = elements
        for _ in range(2):
            towards = np.where(steps < 0, -np.inf, np.inf).astype(elements.dtype)
            moved = np.where((steps != 0) & np.isfinite(elements), np.nextafter(moved, towards), moved)
            steps = steps - np.sign(steps)
        return _make(moved, result)

    def _sum(self, x: Any, *, axis: Any = None, dtype: Any = None, keepdims: bool = False) -> Any:
        """Return a sum in the order that the library chooses."""
        chosen = self.freedoms & {Freedom.SUMS_BACKWARDS, Freedom.SUMS_SHUFFLED, Freedom.SUMS_HALVED}
        if not chosen:
            return strict.sum(x, axis=axis, dtype=dtype, keepdims=keepdims)
        elements = x._array if dtype is None else strict.astype(x, dtype)._array
        axes = range(elements.ndim) if axis is None else [axis] if isinstance(axis, int) else axis
        axes = [each % elements.ndim for each in axes]
        kept = [each for each in range(elements.ndim) if each not in axes]
        flat = elements.transpose([*axes, *kept]).reshape(-1, *(elements.shape[each] for each in kept))
        with np.errstate(all="ignore"):
            total = _add_up(flat, min(chosen, key=lambda freedom: freedom.name))
        if keepdims:
            total = total.reshape([1 if each in axes else elements.shape[each] for each in range(elements.ndim)])
        return _make(total, x)

    def multiply(self, x: Array, other: Any) -> Any:
        """Return a product, which remembers its factors if the library contracts."""
        first, second = self.flush(x._inner), self.flush(self.unwrap(other))
        product = self.flush(first * second)
        factors = (first, second) if Freedom.CONTRACTS in self.freedoms and _is_float(product) else None
        return Array(self, product, factors)

    def add(self, x: Array, other: Any, sign: int) -> Any:
        """Return a sum or a difference. If one of the two is a product, round only once."""
        first, second = self.flush(x._inner), self.flush(self.unwrap(other))
        if x._product is not None:
            return self.wrap(self.flush(_fuse(*x._product, second if sign == 1 else -second)))
        if isinstance(other, Array) and other._product is not None:
            a, b = other._product
            return self.wrap(self.flush(_fuse(a if sign == 1 else -a, b, first)))
        return self.wrap(self.flush(first + second if sign == 1 else first - second))


class Information:
    """What `__array_namespace_info__` returns."""

    def __init__(self, library: Library) -> None:
        self._library = library
        self._inner = strict.__array_namespace_info__()

    def dtypes(self, *, device: Any = None, kind: Any = None) -> dict[str, Any]:
        found = self._inner.dtypes(device=self._library.unwrap(device), kind=kind)
        return {name: self._library.wrap_dtype(dtype) for name, dtype in found.items()}

    def default_device(self) -> Any:
        return self._library.wrap_device(self._inner.default_device())


def make_library(freedoms: Collection[Freedom]) -> types.ModuleType:
    """Return the namespace of a library that takes these freedoms."""
    return Library(freedoms).namespace


def read(array: Array) -> np.ndarray[Any, Any]:
    """Return the elements of an array, which the library itself may refuse to show."""
    return np.array(array._inner.to_device(strict.Device("CPU_DEVICE")))


def _is_float(value: Any) -> bool:
    return isinstance(value, strict._array_object.Array) and value._array.dtype.kind == "f"


def _make(elements: np.ndarray[Any, Any], like: Any) -> Any:
    return strict.asarray(elements, device=like.device)


def _copy(inner: Any) -> Any:
    return strict.asarray(inner, copy=True)


def _add_up(x: np.ndarray[Any, Any], order: Freedom) -> np.ndarray[Any, Any]:
    """Return the sum over the first axis, rounded after each addition."""
    if x.shape[0] == 0:
        return np.zeros(x.shape[1:], x.dtype)
    if order is Freedom.SUMS_HALVED:
        while x.shape[0] > 1:
            half = x.shape[0] // 2
            x = np.concatenate([x[:half] + x[half : 2 * half], x[2 * half :]])
        return np.asarray(x[0])
    places = np.arange(x.shape[0])[::-1]
    if order is Freedom.SUMS_SHUFFLED:
        places = np.random.default_rng(zlib.crc32(x.tobytes())).permutation(places)
    # NumPy adds the numbers of a cumulative sum one after another.
    return np.asarray(np.cumsum(x[places], axis=0, dtype=x.dtype)[-1])


def _fuse(a: Any, b: Any, c: Any) -> Any:
    """Return `a * b + c`, rounded once (in float64 but for very rare ties)."""
    like = next(x for x in (a, b, c) if _is_float(x))
    x, y, z = (np.asarray(each._array if _is_float(each) else each, like._array.dtype) for each in (a, b, c))
    with np.errstate(all="ignore"):
        if like._array.dtype == np.float32:
            # The product of two float32 is exact in float64.
            return _make((x.astype(np.float64) * y + z).astype(np.float32), like)
        wide = np.longdouble
        product = x * y
        # The error of the product, by Dekker's method.
        error = _find_error_of_product(x, y, product)
        total = product + z
        virtual = total - product
        rest = (product - (total - virtual)) + (z - virtual)
        fused = (total.astype(wide) + (rest.astype(wide) + error)).astype(np.float64)
        return _make(np.where(np.isfinite(fused), fused, total), like)


def _find_error_of_product(x: Any, y: Any, product: Any) -> Any:
    split = 2.0**27 + 1
    x_high = x * split - (x * split - x)
    y_high = y * split - (y * split - y)
    x_low, y_low = x - x_high, y - y_high
    return ((x_high * y_high - product) + x_high * y_low + x_low * y_high) + x_low * y_low
