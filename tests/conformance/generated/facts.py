"""Find the facts that a trigger may test: facts of one gradient, and of its list.

The facts come from the arrays alone, and do not depend on how cases are made.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import numpy as np

from gradclip_adapters import operations

#: The operations of which mutants are drawn. The functions and the proof know no averages, examples and units: these
#: operations have mutants that are written by hand.
OPERATIONS = ("clip_by_value", "clip_by_norm", "clip_by_global_norm")
NORMS = tuple(name for name in OPERATIONS if operations.OPERATIONS[name].is_by_norm)
VALUES = tuple(name for name in OPERATIONS if name not in NORMS)
#: Only these return their norm, and take `error_if_nonfinite`.
GLOBAL = tuple(name for name in OPERATIONS if operations.OPERATIONS[name].is_global)

Array = np.ndarray[Any, Any]
Value = TypeVar("Value")


class lazy(Generic[Value]):  # noqa: N801 - it is used as a decorator
    """Compute a value when it is first needed, and cache it.

    `functools.cached_property` of Python 3.11 holds a lock while it computes. The suite interrupts calls to make other
    calls, which would wait for the lock.
    """

    def __init__(self, find: Callable[[Any], Value]) -> None:
        self.find, self.__doc__ = find, find.__doc__

    def __get__(self, instance: Any, owner: Any = None) -> Value:
        found = instance.__dict__[self.find.__name__] = self.find(instance)
        return found


@dataclass
class Work:
    """One call of a clip function."""

    operation: str
    grads: list[Any]
    flags: list[bool]
    #: The threshold. In a clip by value, it is `max`.
    threshold: float
    low: float | None = None
    norm_type: float = 2.0
    #: The option `error_if_nonfinite`, or None if it was left out.
    error_flag: bool | None = None
    in_place: bool = False
    #: Whether the caller gives `norm_type`.
    norm_given: bool = True

    @property
    def about(self) -> operations.Operation:
        """The record of the operation."""
        return operations.OPERATIONS[self.operation]

    @lazy
    def present(self) -> list[int]:
        return [i for i, grad in enumerate(self.grads) if grad is not None]

    @lazy
    def missing(self) -> list[int]:
        """List the places of parameters without gradient."""
        return [i for i, grad in enumerate(self.grads) if grad is None]

    @lazy
    def excluded(self) -> list[int]:
        return [i for i in self.present if not self.flags[i]]

    @lazy
    def widths(self) -> list[int]:
        return [self.grads[i].itemsize for i in self.present]

    @lazy
    def longest(self) -> int:
        return max((self.grads[i].size for i in self.present), default=0)

    @lazy
    def total(self) -> float:
        """Return the approximate global norm."""
        return _compute_norm([self.grads[i] for i in self.present if self.flags[i]], self.norm_type)

    def list_facts(self) -> list[Facts | None]:
        """Return the facts of each gradient, and None for a missing one."""
        return [None if grad is None else Facts(self, i, grad) for i, grad in enumerate(self.grads)]


class Facts:
    """The facts of one gradient. Each is computed when it is first needed, and cached."""

    def __init__(self, work: Work, index: int, array: Array) -> None:
        self.work, self.index, self.array = work, index, array
        self.dtype, self.size, self.shape, self.ndim = array.dtype.name, array.size, array.shape, array.ndim
        self.number = len(work.grads)
        self.flag = bool(work.flags[index])

    @lazy
    def layout(self) -> str:
        array = self.array
        if array.size < 2 or array.flags.c_contiguous:
            return "contiguous"
        steps = [step for step, length in zip(array.strides, array.shape, strict=True) if length > 1]
        if 0 in steps:
            return "broadcast"
        if min(steps) < 0:
            return "reversed"
        if array.flags.f_contiguous:
            return "transposed"
        return "sliced" if steps[-1] == array.itemsize else "strided"

    @lazy
    def wide(self) -> Array:
        # A signalling NaN would give a warning.
        with np.errstate(invalid="ignore"):
            return self.array.reshape(-1).astype(np.float64)

    @lazy
    def data(self) -> frozenset[str]:
        """Return the words that describe the elements."""
        x = self.wide
        if not x.size:
            return frozenset()
        found = {word for word, holds in _list_words(x) if holds}
        found |= {word for word, holds in _list_range_words(x, self.array.dtype) if holds}
        return frozenset(found)

    @lazy
    def ratio(self) -> float:
        """Return the norm divided by the threshold. In a clip by value, divide the largest magnitude instead."""
        work = self.work
        if not work.about.is_by_norm:
            norm = float(np.max(np.abs(self.wide), initial=0.0))
        else:
            norm = work.total if work.about.is_global else _compute_norm([self.array], work.norm_type)
        if norm == work.threshold:
            return 1.0
        return norm / float(work.threshold) if work.threshold else math.inf

    def keep(self) -> None:
        """Compute all facts now, and drop the array."""
        for name in ("layout", "data", "ratio"):
            getattr(self, name)
        self.__dict__.pop("wide", None)
        del self.array


def _list_words(x: Array) -> list[tuple[str, Any]]:
    magnitudes = np.abs(x)
    finite = bool(np.isfinite(x).all())
    largest = float(magnitudes.max()) if finite else math.nan
    several = x.size > 1
    return [
        ("nan", np.isnan(x).any()),
        ("infinity", np.isinf(x).any()),
        ("constant", several and (x == x[0]).all()),
        ("all negative", (x < 0).all()),
        ("all positive", (x > 0).all()),
        ("alternating signs", several and (np.sign(x[1:]) * np.sign(x[:-1]) < 0).all()),
        ("first equal to last", several and x[0] == x[-1]),
        ("ascending", several and (x[1:] >= x[:-1]).all()),
        ("zeros", (x == 0).any()),
        ("all zero", not x.any()),
        ("minus zero", np.signbit(x[x == 0]).any()),
        ("one large among small", several and finite and np.count_nonzero(magnitudes * 8 >= largest) == 1),
        ("largest first", several and magnitudes[0] == largest),
        ("largest last", several and magnitudes[-1] == largest),
        ("nonfinite first", not np.isfinite(x[0])),
        ("nonfinite last", not np.isfinite(x[-1])),
    ]


def _list_range_words(x: Array, dtype: Any) -> list[tuple[str, Any]]:
    info = np.finfo(dtype)
    finite = np.abs(x[np.isfinite(x) & (x != 0)])
    if not finite.size:
        return []
    largest, least = float(finite.max()), float(finite.min())
    return [
        ("squares over", largest > math.sqrt(float(info.max))),
        ("sum over", largest < math.sqrt(float(info.max)) < _compute_norm([finite], 2.0)),
        ("squares under", largest < math.sqrt(float(info.tiny))),
        ("subnormal", least < float(info.tiny)),
        ("fractions", bool((finite != np.floor(finite)).any())),
    ]


def _compute_norm(arrays: Sequence[Array], p: float) -> float:
    """Return the norm in the widest format, which is accurate enough to compare it with the threshold."""
    with np.errstate(all="ignore"):
        parts = [np.abs(array.reshape(-1).astype(np.longdouble)) for array in arrays]
        if p == math.inf:
            return float(max((part.max(initial=0.0) for part in parts), default=0.0))
        if p == 2:
            return float(np.sqrt(sum((np.sum(part * part) for part in parts), np.longdouble(0))))
        total = sum((np.sum(part ** np.longdouble(p)) for part in parts), np.longdouble(0))
        return float(total ** (1 / np.longdouble(p)))
