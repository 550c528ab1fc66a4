"""Define the levels from which triggers are made. A trigger says when a fault shows.

A level is one circumstance on an axis, such as "float16" on the axis "dtype". The facts of a gradient decide whether a
level holds. Each level also says how to draw an input for which it holds. A kernel chooses its code by several of
`KERNEL_AXES` at once, so three levels of these axes can form a trigger. Other triggers have at most two levels.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from .drafts import Draft
from .facts import GLOBAL, NORMS, OPERATIONS, VALUES, Facts

KERNEL_AXES = ("dtype", "size", "number", "shape", "layout", "relation", "in place")

#: Further demands for gradients in which no square overflows, but the sum of the squares does.
SUMMED: dict[str, Any] = {"filling": "constant", "size": (12, 40)}

#: The sizes and numbers of arrays at which kernels split their work.
LENGTHS = (8, 16, 32, 64, 512, 1024, 2048, 4096, 16_384, 32_768, 65_536, 2**17, 2**18)
COUNTS = (1, 2, 32, 64, 110, 128, 256, 320, 1000, 1024)


@dataclass(frozen=True)
class Level:
    """One circumstance, which holds for a gradient or does not."""

    axis: str
    name: str
    holds: Callable[[Facts], Any]
    ask: Callable[[Draft], Draft]
    #: The operations for which the level exists.
    operations: tuple[str, ...] = OPERATIONS


def demand(**demands: Any) -> Callable[[Draft], Draft]:
    """Return a function that adds these demands to a draft."""
    return lambda draft: replace(draft, **demands)


def add_kind(name: str, kind: str) -> Callable[[Draft], Draft]:
    """Return a function that adds a kind to the set `excluded` or `nones` of a draft."""
    return lambda draft: replace(draft, **{name: getattr(draft, name) | {kind}})


def _list_dtypes() -> Iterator[Level]:
    for dtype in ("float16", "float32", "float64"):
        yield Level("dtype", dtype, lambda f, d=dtype: f.dtype == d, demand(dtype=dtype))


def _list_mixtures() -> Iterator[Level]:
    def get_width(f: Facts) -> int:
        return np.dtype(f.dtype).itemsize

    for word, holds, after in (
        ("wider", lambda f: max(f.work.widths) > get_width(f), lambda f: f.work.widths[0] > get_width(f)),
        ("narrower", lambda f: min(f.work.widths) < get_width(f), lambda f: f.work.widths[0] < get_width(f)),
    ):
        yield Level("mixture", f"beside-{word}", holds, demand(beside=word))
        yield Level("mixture", f"after-{word}", after, demand(beside=word, index=(1, 3)))


def _list_sizes() -> Iterator[Level]:
    yield Level("size", "one-element", lambda f: f.size == 1, demand(size=(1, 1)))
    yield Level("size", "under-8-elements", lambda f: 0 < f.size < 8, demand(size=(2, 7)))
    for step in (2, 4, 8, 16):
        yield Level(
            "size",
            f"no-multiple-of-{step}",
            lambda f, s=step: f.size % s,
            demand(size=(step + 1, 4 * step), uneven=step),
        )
    yield Level("size", "odd-and-over-100", lambda f: f.size > 100 and f.size % 2, demand(size=(101, 300), uneven=2))
    for length in LENGTHS:
        yield Level(
            "size",
            f"over-{length}",
            lambda f, n=length: f.size > n,
            demand(size=(length + 1, length + length // 2 + 9)),
        )


def _list_numbers() -> Iterator[Level]:
    yield Level("number", "alone", lambda f: f.number == 1, demand(number=(1, 1)))
    for count in COUNTS:
        longer, later = demand(number=(count + 1, count + 9)), demand(index=(count, count + 3))
        yield Level("number", f"list-over-{count}", lambda f, n=count: f.number > n, longer)
        yield Level("number", f"beyond-place-{count}", lambda f, n=count: f.index >= n, later)
    last, first = demand(index=(1, 4), last=True), demand(index=(0, 0), number=(2, 4))
    yield Level("number", "last-of-several", lambda f: 0 < f.index == f.number - 1, last)
    yield Level("number", "first-of-several", lambda f: f.index == 0 and f.number > 1, first)


def _list_shapes() -> Iterator[Level]:
    for name, shape, holds in (
        ("no-axis", "none", lambda f: f.ndim == 0),
        ("one-axis", "vector", lambda f: f.ndim == 1),
        ("matrix", "matrix", lambda f: f.ndim == 2),
        ("odd-width", "odd width", lambda f: f.ndim >= 2 and f.shape[-1] % 2),
        ("even-width", "even width", lambda f: f.ndim >= 2 and f.shape[-1] % 2 == 0),
        ("square", "square", lambda f: f.ndim == 2 and f.shape[0] == f.shape[1] > 1),
        ("one-row", "one row", lambda f: f.ndim == 2 and f.shape[0] == 1),
        ("one-column", "one column", lambda f: f.ndim >= 2 and f.shape[-1] == 1),
        ("three-axes", "three axes", lambda f: f.ndim == 3),
        ("five-axes", "five axes", lambda f: f.ndim == 5),
    ):
        yield Level("shape", name, holds, demand(shape=shape))


def _list_layouts() -> Iterator[Level]:
    for layout in ("transposed", "strided", "reversed", "sliced", "broadcast"):
        yield Level("layout", layout, lambda f, name=layout: f.layout == name, demand(layout=layout))
    yield Level("layout", "contiguous", lambda f: f.layout == "contiguous", demand(layout="contiguous"))
    yield Level("layout", "not-contiguous", lambda f: f.layout != "contiguous", demand(layout="strided"))


def _list_relations() -> Iterator[Level]:
    for name, holds in (
        ("far-below", lambda f: f.ratio < 1 / 8),
        ("below", lambda f: f.ratio < 1),
        ("just-below", lambda f: 0.99 < f.ratio < 1),
        ("at", lambda f: f.ratio == 1),
        ("just-above", lambda f: 1 < f.ratio < 1.01),
        ("above", lambda f: f.ratio > 1),
        ("far-above", lambda f: f.ratio > 8),
    ):
        yield Level("relation", f"{name}-threshold", holds, demand(relation=name.replace("-", " ")))
    for name, demands, holds in (
        ("zero", {"threshold": "zero"}, lambda threshold: threshold == 0),
        ("infinite", {"threshold": "infinite"}, lambda threshold: threshold == math.inf),
        ("integer", {"threshold": "integer"}, lambda threshold: isinstance(threshold, int)),
        ("large", {"magnitude": "squares over"}, lambda threshold: 2**31 < threshold < math.inf),
        ("power-of-two", {"threshold": "power of two"}, is_power_of_two),
        ("no-power-of-two", {}, lambda threshold: 0 < threshold < math.inf and not is_power_of_two(threshold)),
    ):
        yield Level("threshold", f"{name}-threshold", lambda f, holds=holds: holds(f.work.threshold), demand(**demands))


def is_power_of_two(threshold: float) -> bool:
    return 0 < threshold < math.inf and math.frexp(threshold)[0] == 0.5


def _list_data() -> Iterator[Level]:
    for word in (
        *("fractions", "constant", "all negative", "all positive", "alternating signs", "first equal to last"),
        *("ascending", "zeros", "minus zero", "one large among small", "largest first", "largest last"),
        *("nan", "infinity", "nonfinite first", "nonfinite last"),
    ):
        yield Level("data", word.replace(" ", "-"), lambda f, w=word: w in f.data, demand(filling=word))
    for word in ("squares over", "sum over", "squares under", "subnormal"):
        yield Level(
            "magnitude",
            word.replace(" ", "-"),
            lambda f, w=word: w in f.data,
            demand(magnitude=word, **SUMMED if word == "sum over" else {}),
        )


def _list_rest() -> Iterator[Level]:
    for p in (1.0, 2.0, 3.0, 4.0, math.inf):
        yield Level("norm type", f"p-{p:g}", lambda f, p=p: f.work.norm_type == p, demand(norm_type=p), NORMS)
    for p in (0.5, 1.5, 2.5):
        # The powers of square numbers are exact.
        ask = demand(norm_type=p, filling="squares")
        yield Level("norm type", f"p-{p:g}", lambda f, p=p: f.work.norm_type == p, ask, NORMS)
    yield Level("norm type", "norm-type-given", lambda f: f.work.norm_given, demand(norm_given=True), NORMS)
    yield Level("norm type", "norm-type-left-out", lambda f: not f.work.norm_given, demand(norm_given=False), NORMS)
    for name, kind, holds in (
        ("others-excluded", "some", lambda f: bool(set(f.work.excluded) - {f.index})),
        ("none-excluded", "none", lambda f: not f.work.excluded),
        ("first-excluded", "first", lambda f: f.work.excluded[:1] == [f.work.present[0]]),
        ("last-excluded", "last", lambda f: f.work.excluded[-1:] == [f.work.present[-1]]),
        ("all-excluded", "all", lambda f: len(f.work.excluded) == len(f.work.present)),
        (
            "all-but-this-excluded",
            "others",
            lambda f: f.flag and len(f.work.excluded) == len(f.work.present) - 1 > 0,
        ),
    ):
        yield Level("exclusion", name, holds, add_kind("excluded", kind))
    for name, kind, holds in (
        ("beside-none", "some", lambda f: bool(f.work.missing)),
        ("without-none", "none", lambda f: not f.work.missing),
        ("after-none", "before", lambda f: f.index - 1 in f.work.missing),
        ("none-first", "first", lambda f: f.work.grads[0] is None),
        ("none-last", "last", lambda f: f.work.grads[-1] is None),
    ):
        yield Level("none", name, holds, add_kind("nones", kind))
    yield Level("in place", "in-place", lambda f: f.work.in_place, demand(in_place=True))
    yield Level("in place", "not-in-place", lambda f: not f.work.in_place, demand(in_place=False))
    for name, flag in (("error-flag", True), ("error-flag-false", False), ("error-flag-left-out", None)):
        flagged = demand(error_flag=flag)
        yield Level("error flag", name, lambda f, flag=flag: f.work.error_flag is flag, flagged, GLOBAL)
    yield Level("bounds", "min-given", lambda f: f.work.low is not None, demand(min_given=True), VALUES)
    yield Level("bounds", "max-alone", lambda f: f.work.low is None, demand(min_given=False), VALUES)
    yield Level("place", "not-the-longest", lambda f: f.size < f.work.longest, demand(size=(1, 3), number=(3, 5)))
    yield Level(
        "place", "longest-of-several", lambda f: f.size == f.work.longest and f.number > 1, demand(number=(2, 5))
    )


LEVELS: tuple[Level, ...] = (
    *_list_dtypes(),
    *_list_mixtures(),
    *_list_sizes(),
    *_list_numbers(),
    *_list_shapes(),
    *_list_layouts(),
    *_list_relations(),
    *_list_data(),
    *_list_rest(),
)


def find_level(name: str) -> Level:
    return next(level for level in LEVELS if level.name == name)
