"""Define wrong functions as people write them for themselves: whole functions on NumPy arrays, with one mistake each.

No function is made from the steps of the mutants: what is right in them comes from the right functions. Each names the
causes that a finding may name for it. `unexplained` stands among them if no cause of the catalogue is right for the
mistake, or only one that says less than the truth.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from .right import (
    Limit,
    Scaling,
    make_global_norm_function,
    make_own_norm_function,
    make_value_function,
    read_threshold,
)
from .right import branch as shrink
from .right import long_double as norm2

Function = Callable[..., Any]
#: A function that returns the norm of some gradients, or a number in its place.
Measure = Callable[[Sequence[Any]], Any]


@dataclass(frozen=True)
class Elsewhere:
    """A wrong function, its operation, and the causes that a finding may name."""

    name: str
    operation: str
    function: Function
    causes: tuple[str, ...]


ELSEWHERE: list[Elsewhere] = []


def _add(operation: str, name: str, function: Function, *causes: str) -> None:
    ELSEWHERE.append(Elsewhere(f"{operation} {name}", operation, function, causes))


# The parts that most people write alike.


def wide(array: Any) -> Any:
    return np.asarray(array, np.longdouble)


def norm_p(arrays: Sequence[Any], p: float) -> Any:
    return sum((np.sum(np.abs(wide(a)) ** p) for a in arrays), np.longdouble(0)) ** (1 / np.longdouble(p))


def count(arrays: Sequence[Any]) -> int:
    return max(sum(np.size(a) for a in arrays), 1)


def by_global(norm: Measure = norm2, scale: Scaling = shrink) -> Function:
    """Return a clip by global norm with another norm or another scaling. It returns no norm."""
    function = make_global_norm_function(norm, scale)

    def clip(grads: Any, *, clip_norm: float, need_clip: Any) -> Any:
        return function(list(grads), clip_norm=clip_norm, need_clip=need_clip)[0]

    return clip


def keep_dtype(limit: Limit) -> Limit:
    """Return a function that limits elements and keeps the dtype."""
    return lambda g, low, high: np.asarray(limit(g, low, high)).astype(g.dtype)


def measure_included(grads: list[Any], need_clip: Any) -> Any:
    """Return the global norm of the included gradients."""
    return norm2([g for g, k in zip(grads, need_clip, strict=True) if g is not None and k])


GLOBAL, NORM, VALUE, RMS = "clip_by_global_norm", "clip_by_norm", "clip_by_value", "clip_by_block_rms"
AVERAGE, EXAMPLE, UNIT = "clip_by_average_norm", "clip_per_example", "clip_unitwise"

#: Other norms: the operation, what is wrong, the causes, and the norm of some gradients.
NORMS: list[tuple[str, str, str, Measure]] = [
    (GLOBAL, "by the sum of magnitudes", "other-order", lambda a: norm_p(a, 1)),
    (GLOBAL, "adds 1e-6 inside the root", "eps-under-root", lambda a: np.sqrt(norm2(a) ** 2 + np.longdouble(1e-6))),
    (GLOBAL, "by the magnitude of the sum", "signed-powers", lambda a: abs(sum(np.sum(wide(x)) for x in a))),
    (GLOBAL, "adds 1e-12 to the norm", "eps-in-coefficient", lambda a: norm2(a) + np.longdouble(1e-12)),
    (GLOBAL, "divides by the count", "other-average", lambda a: norm2(a) / count(a)),
    (GLOBAL, "counts one less", "mean-of-squares count-off-by-one", lambda a: norm2(a) / np.sqrt(max(count(a) - 1, 1))),
    (GLOBAL, "averages the norms", "mean-of-norms", lambda a: sum(norm2([x]) for x in a) / max(len(a), 1)),
    (GLOBAL, "divides the norm by the number of gradients", "norm-divided", lambda a: norm2(a) / max(len(a), 1)),
    (GLOBAL, "measures the first only", "gradients-left-out", lambda a: norm2(a[:1])),
    (
        GLOBAL,
        "sums in float32",
        "narrower-arithmetic squares-overflow",
        lambda a: np.longdouble(np.sqrt(np.float32(sum(np.sum(np.square(wide(x))) for x in a)))),
    ),
    (
        NORM,
        "by the largest row",
        "largest-of-norms other-units unexplained",
        lambda a: max(norm2([r]) for r in np.atleast_2d(a[0])) if a[0].size else 0,
    ),
    (NORM, "by the spread", "mean-subtracted", lambda a: norm2([wide(a[0]) - np.mean(wide(a[0]))]) if a[0].size else 0),
    (
        NORM,
        "by the largest singular value of a matrix",
        "norm-of-matrix",
        lambda a: np.linalg.norm(a[0], 2) if a[0].ndim == 2 and a[0].size else norm2(a),
    ),
    (RMS, "counts one less", "count-off-by-one", lambda a: norm2(a) / np.sqrt(max(count(a) - 1, 1))),
    (RMS, "divides by the count", "other-average", lambda a: norm2(a) / count(a)),
    (RMS, "counts the rows", "count-of-axis", lambda a: norm2(a) / np.sqrt(max(len(np.atleast_1d(a[0])), 1))),
    (
        RMS,
        "counts the elements that are not zero",
        "zeros-not-counted",
        lambda a: norm2(a) / np.sqrt(max(np.count_nonzero(a[0]), 1)),
    ),
    (RMS, "by the mean magnitude", "other-order", lambda a: norm_p(a, 1) / count(a)),
    (RMS, "by the deviation", "mean-subtracted", lambda a: np.std(wide(a[0])) if a[0].size else 0),
    (RMS, "adds 1e-6 to the mean", "eps-under-root", lambda a: np.sqrt(norm2(a) ** 2 / count(a) + np.longdouble(1e-6))),
    (AVERAGE, "by the root mean square", "other-average", lambda a: norm2(a) / np.sqrt(count(a))),
    (
        AVERAGE,
        "counts no rows",
        "count-of-axis",
        lambda a: norm2(a) / (np.prod(a[0].shape[1:]) if a[0].ndim > 1 else count(a)),
    ),
    (AVERAGE, "takes no root", "no-root", lambda a: norm2(a) ** 2 / count(a)),
]
for operation, name, causes, norm in NORMS:
    clip = by_global(norm) if operation == GLOBAL else make_own_norm_function(norm, shrink)
    _add(operation, name, clip, *causes.split())

#: Other scalings: the operation, what is wrong, the causes, and the result for a gradient, a threshold and a norm.
SCALINGS: list[tuple[str, str, str, Scaling]] = [
    (GLOBAL, "halves", "multiple", lambda g, c, n: shrink(g, c, n) if n <= c else shrink(g, c / 2, n)),
    (GLOBAL, "loses the signs", "signs-lost", lambda g, c, n: np.abs(shrink(g, c, n))),
    (
        GLOBAL,
        "tolerates a tenth of a percent",
        "threshold-tolerance",
        lambda g, c, n: g.copy() if n <= c * 1.001 else shrink(g, c, n),
    ),
    (
        GLOBAL,
        "cuts the threshold to a whole number",
        "threshold-rounded",
        lambda g, c, n: shrink(g, int(c) if np.isfinite(c) else c, n),
    ),
    (GLOBAL, "flips the signs", "sign-flipped", lambda g, c, n: shrink(g, c, n) if n <= c else -shrink(g, c, n)),
    (
        GLOBAL,
        "uses isclose",
        "threshold-tolerance",
        lambda g, c, n: g.copy() if np.isclose(float(n), c) else shrink(g, c, n),
    ),
    (
        GLOBAL,
        "rounds the coefficient to two digits",
        "coefficient-rounded unexplained",
        lambda g, c, n: g.copy() if n <= c else (wide(g) * np.round(c / n, 2)).astype(g.dtype),
    ),
    (
        GLOBAL,
        "rounds the coefficient to five digits",
        "coefficient-rounded",
        lambda g, c, n: g.copy() if n <= c else (wide(g) * np.round(c / n, 5)).astype(g.dtype),
    ),
    (NORM, "sorts the elements", "elements-moved", lambda g, c, n: np.sort(shrink(g, c, n).ravel()).reshape(g.shape)),
    (GLOBAL, "softly", "unexplained", lambda g, c, n: (wide(g) * np.tanh(c / n) if n else wide(g)).astype(g.dtype)),
    (
        GLOBAL,
        "by c / (c + n)",
        "unexplained threshold-added",
        lambda g, c, n: (wide(g) * (c / (n + c)) if np.isfinite(c) and n + c else wide(g)).astype(g.dtype),
    ),
    (GLOBAL, "by n - c", "unexplained", lambda g, c, n: shrink(g, c, n) if n <= c else shrink(g, n - c, n)),
    (
        GLOBAL,
        "through float16",
        "narrower-arithmetic",
        lambda g, c, n: shrink(g, c, n) if n <= c else shrink(g, c, n).astype(np.float16).astype(g.dtype),
    ),
    (GLOBAL, "to zero", "gradients-zeroed", lambda g, c, n: g.copy() if n <= c else np.zeros_like(g)),
    (
        GLOBAL,
        "only what is large",
        "not-clipped unexplained",
        lambda g, c, n: shrink(g, c, n) if norm2([g]) > c else g.copy(),
    ),
    (
        NORM,
        "limits the elements",
        "elements-limited",
        lambda g, c, n: np.clip(g, -c, c).astype(g.dtype) if np.isfinite(n) and n > c else shrink(g, c, n),
    ),
    (NORM, "leaves matrices", "not-clipped unexplained", lambda g, c, n: g.copy() if g.ndim > 1 else shrink(g, c, n)),
]
for operation, name, causes, scale in SCALINGS:
    clip = by_global(scale=scale) if operation == GLOBAL else make_own_norm_function(norm2, scale)
    _add(operation, name, clip, *causes.split())

#: Other clips by value: what is wrong, the causes, and the result for a gradient and its bounds.
VALUES: list[tuple[str, str, Limit]] = [
    ("below only", "value-one-sided", lambda g, low, _: np.maximum(g, low)),
    ("takes the magnitude", "signs-lost", lambda g, low, high: np.clip(np.abs(g), low, high)),
    ("ignores the lower bound", "value-bounds-mirrored", lambda g, _, high: np.clip(g, -high, high)),
    ("has zero as the lower bound", "value-bound-zero", lambda g, _, high: np.clip(g, 0, high)),
    ("negates the lower bound", "value-bounds-mirrored", lambda g, low, high: np.minimum(np.maximum(g, -low), high)),
    ("adds zero", "zero-sign-lost", lambda g, low, high: np.clip(g, low, high) + g.dtype.type(0)),
    ("zeroes what is outside", "value-outside-zeroed", lambda g, low, high: np.where((g < low) | (g > high), 0, g)),
    ("by tanh", "unexplained", lambda g, _, high: high * np.tanh(wide(g) / high) if high else g * 0),
    (
        "scales the whole gradient",
        "value-scaled",
        lambda g, _, high: wide(g) * min(1, high / np.max(np.abs(wide(g)))) if np.any(g) else g,
    ),
    (
        "swaps the bounds",
        "value-bounds-swapped value-bounds-mirrored unexplained",
        lambda g, low, high: np.clip(g, -high, -low),
    ),
]
for name, causes, limit in VALUES:
    _add(VALUE, name, make_value_function(keep_dtype(limit)), *causes.split())


# Another threshold.


def budget(grads: Any, *, clip_norm: float, need_clip: Any) -> Any:
    """Clip by norm, and give each gradient an equal part of the threshold."""
    grads = list(grads)
    number = sum(g is not None and bool(k) for g, k in zip(grads, need_clip, strict=True))
    clip = make_own_norm_function(norm2, shrink)
    return clip(grads, clip_norm=clip_norm / max(number, 1), need_clip=need_clip)


_add(GLOBAL, "each by its own norm and a K-th of the threshold", budget, "threshold-divided")


def scale_rows(g: Any, c: float, n: float) -> Any:
    """Clip each row of a matrix by its own norm."""
    if g.ndim < 2:
        return shrink(g, c, n)
    each = np.sqrt(np.sum(np.square(wide(g)), axis=-1, keepdims=True))
    with np.errstate(all="ignore"):
        return np.where(each <= c, wide(g), wide(g) * (c / each)).astype(g.dtype)


_add(NORM, "each row alone", make_own_norm_function(norm2, scale_rows), "norm-of-rows", "unexplained")


def scale_parts(g: Any, c: float, n: float) -> Any:
    """Clip each part along the first axis by its own root mean square."""
    if g.ndim < 2 or not g.size:
        return shrink(g, c, n)
    return np.stack([shrink(part, c, norm2([part]) / np.sqrt(count([part]))) for part in g])


_add(
    RMS, "each part alone", make_own_norm_function(lambda a: norm2(a) / np.sqrt(count(a)), scale_parts), "norm-of-rows"
)
_add(
    RMS,
    "each part of four axes alone",
    make_own_norm_function(
        lambda a: norm2(a) / np.sqrt(count(a)), lambda g, c, n: (scale_parts if g.ndim == 4 else shrink)(g, c, n)
    ),
    "norm-of-rows",
    "count-of-axis",
)


def count_all(grads: Any, *, clip_norm: float, need_clip: Any) -> Any:
    """Divide each norm by the number of elements of all gradients."""
    many = count([g for g, k in zip(grads, need_clip, strict=True) if g is not None and k])
    clip = make_own_norm_function(lambda a: norm2(a) / many, shrink)
    return clip(list(grads), clip_norm=clip_norm, need_clip=need_clip)


_add(AVERAGE, "counts all elements", count_all, "count-of-all")


# Inputs, results and forms.


def around(change: Callable[[list[Any]], Any]) -> Function:
    def clip(grads: Any, *, clip_norm: float, need_clip: Any) -> Any:
        return change(by_global()(grads, clip_norm=clip_norm, need_clip=need_clip))

    return clip


def concatenate(results: list[Any]) -> Any:
    return np.concatenate([np.ravel(one) for one in results if one is not None] or [np.zeros(0)])


_add(GLOBAL, "joins", around(concatenate), "malformed", "count-changed")
_add(GLOBAL, "returns a dict", around(lambda r: dict(enumerate(r))), "malformed")


def make_late() -> Measure:
    """Return a function that measures the norm, and returns the one of the call before."""
    norms: list[float] = []

    def norm(arrays: Any) -> float:
        norms.append(norm2(arrays))
        return norms[-2:][0]

    return norm


_add(GLOBAL, "by the norm of the call before", by_global(make_late()), "unexplained")


def reports_coefficient(grads: Any, *, clip_norm: float, need_clip: Any) -> Any:
    n = measure_included(list(grads), need_clip)
    results = by_global()(grads, clip_norm=clip_norm, need_clip=need_clip)
    return results, min(1.0, clip_norm / n) if n else 1.0


_add(GLOBAL, "reports the coefficient", reports_coefficient, "unexplained", "coefficient-returned")


def reports_denominator(grads: Any, *, clip_norm: float, need_clip: Any) -> Any:
    """Return the number by which the gradients are divided, in place of the norm."""
    results = by_global()(grads, clip_norm=clip_norm, need_clip=need_clip)
    return results, max(measure_included(list(grads), need_clip), clip_norm)


_add(GLOBAL, "reports the denominator", reports_denominator, "denominator-returned")


def skip_equal(grads: Sequence[Any]) -> Any:
    """Return the norm of gradients, of which equal ones count once, as if a parameter had two names."""
    return norm2(list({(g.shape, g.tobytes()): g for g in grads}.values()))


_add(GLOBAL, "skips equal gradients", by_global(skip_equal), "equal-counted-once")


def slip(grads: Any, *, clip_norm: float, need_clip: Any) -> Any:
    """Clip by norm. List the norms of the included gradients, and read them by the places of all gradients."""
    read_threshold(clip_norm)
    pairs = list(zip(grads, need_clip, strict=True))
    norms = [norm2([g]) for g, k in pairs if g is not None and k] + [np.longdouble(0)] * len(pairs)
    return [g if g is None or not k else shrink(g, clip_norm, n) for (g, k), n in zip(pairs, norms, strict=False)]


_add(NORM, "after an excluded one by another's norm", slip, "norms-misplaced")


def keep_coefficient(grads: Any, *, clip_norm: float, need_clip: Any) -> Any:
    """Clip by norm. Set the coefficient only above the threshold, and multiply each gradient by the last one."""
    read_threshold(clip_norm)
    coefficient, results = np.longdouble(1), []
    with np.errstate(all="ignore"):
        for g, k in zip(list(grads), need_clip, strict=True):
            if g is None or not k:
                results.append(g)
                continue
            if not norm2([g]) <= clip_norm:
                coefficient = clip_norm / norm2([g])
            results.append((wide(g) * coefficient).astype(g.dtype))
    return results


_add(NORM, "keeps the coefficient of an earlier gradient", keep_coefficient, "coefficient-kept")


def take_square_root(grads: Any, *, clip_norm: float, need_clip: Any, norm_type: float = 2.0) -> Any:
    """Clip by a norm whose sum of powers always has a square root."""
    read_threshold(clip_norm)

    def norm(arrays: Any) -> Any:
        if np.isinf(norm_type):
            return max((np.abs(wide(a)).max(initial=0) for a in arrays), default=0)
        return norm_p(arrays, norm_type) ** (np.longdouble(norm_type) / 2)

    return make_own_norm_function(norm, shrink)(list(grads), clip_norm=clip_norm, need_clip=need_clip)


_add(NORM, "by a square root for each order", take_square_root, "other-root")


# Special numbers.


def naive(grads: Any, *, clip_norm: float, need_clip: Any) -> Any:
    """Clip as the formula says, and refuse nothing."""
    grads = list(grads)
    pairs = zip(grads, need_clip, strict=True)
    with np.errstate(all="ignore"):
        a = np.minimum(1, clip_norm / wide(measure_included(grads, need_clip)))
        return [g if g is None or not k else (wide(g) * a).astype(g.dtype) for g, k in pairs]


_add(
    GLOBAL,
    "divides zero by zero",
    naive,
    "zero-over-zero",
    "zero-norm-nan",
    "negative-threshold",
    "undefined-coefficient",
    "infinite-threshold-nan",
)
_add(RMS, "over all gradients", by_global(lambda a: norm2(a) / np.sqrt(count(a))), "norm-of-all")


# Per example.


def per_example(add: Callable[[list[Any]], Any]) -> Function:
    def clip(grads: Any, *, clip_norm: float) -> Any:
        grads = list(grads)
        flags = [True] * len(grads)
        examples = ([np.asarray(g[e]) for g in grads] for e in range(len(grads[0])))
        every = [by_global()(example, clip_norm=clip_norm, need_clip=flags) for example in examples]
        return [np.asarray(add([one[i] for one in every])).astype(g.dtype) for i, g in enumerate(grads)]

    return clip


_add(
    EXAMPLE,
    "averages",
    per_example(lambda parts: np.mean(np.stack([wide(p) for p in parts]), axis=0)),
    "examples-averaged",
)
_add(
    EXAMPLE,
    "squeezes the sum",
    per_example(lambda parts: np.squeeze(np.sum(np.stack(parts), axis=0))),
    "shape-changed",
)
_add(
    EXAMPLE,
    "forgets the last",
    per_example(lambda parts: np.sum(np.stack(parts[:-1] or parts), axis=0)),
    "unexplained",
    "examples-left-out",
    "gradients-zeroed",
)


def share_without_root(grads: Any, *, clip_norm: float, layers: str | None = None) -> Any:
    """Give each layer a part of the threshold by its share of the elements, instead of the root of the share."""
    clip = per_example(lambda parts: np.sum(np.stack(parts), axis=0))
    if layers is None:
        return clip(grads, clip_norm=clip_norm)
    sizes = [count(list(g[:1])) if layers == "by size" else 1 for g in grads]
    return [clip([g], clip_norm=clip_norm * size / sum(sizes))[0] for g, size in zip(grads, sizes, strict=True)]


_add(EXAMPLE, "divides by the share without a root", share_without_root, "threshold-divided")


def clips_the_sum(grads: Any, *, clip_norm: float) -> Any:
    sums = [np.asarray(np.sum(wide(g), axis=0)) for g in grads]
    clipped = by_global()(sums, clip_norm=clip_norm, need_clip=[True] * len(sums))
    return [one.astype(g.dtype) for one, g in zip(clipped, grads, strict=True)]


_add(EXAMPLE, "clips the sum", clips_the_sum, "examples-summed-first", "unexplained")


# Unitwise.


def unitwise(norm: Callable[[Any, str], Any], limit: Callable[[Any, float], Any] = np.maximum) -> Function:
    """Return a unitwise clip with other norms of units, or another limit of their parameters' norms."""

    def clip(grads: Any, *, clip_factor: float, parameters: Any, need_clip: Any, eps: float = 1e-3) -> Any:
        read_threshold(clip_factor)
        results = []
        for g, w, k in zip(list(grads), parameters, need_clip, strict=True):
            if g is None or not k:
                results.append(g)
                continue
            with np.errstate(all="ignore"):
                n, most = norm(wide(g), "gradient"), limit(norm(wide(w), "parameter"), np.longdouble(eps)) * clip_factor
                results.append(np.where(n <= most, wide(g), wide(g) * (most / n)).astype(g.dtype))
        return results

    return clip


def measure_rows(x: Any, _: str) -> Any:
    return np.sqrt(np.sum(np.square(x), axis=tuple(range(1, x.ndim)) or None, keepdims=True))


def measure_columns(x: Any, _: str) -> Any:
    return np.sqrt(np.sum(np.square(x), axis=0 if x.ndim > 1 else None, keepdims=True))


_add(UNIT, "columns", unitwise(measure_columns), "other-units")
_add(UNIT, "has no eps", unitwise(measure_rows, lambda w, _: w), "unexplained", "eps-ignored")
_add(UNIT, "adds eps", unitwise(measure_rows, lambda w, eps: w + eps), "eps-in-limit")
_add(
    UNIT,
    "by the parameter's whole norm",
    unitwise(lambda x, of: norm2([x]) if of == "parameter" else measure_rows(x, of)),
    "whole-parameter",
)
