"""Define wrong functions as people write them for themselves: whole functions on NumPy arrays, with one mistake each.

No function is made from the steps of the mutants. Each names the causes that a finding may name for it. `unexplained`
stands among them if no cause of the catalogue is right for the mistake, or only one that says less than the truth.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

__all__ = ["ELSEWHERE", "Elsewhere"]

Function = Callable[..., Any]
Norm = Callable[[list[Any]], Any]
Scale = Callable[[Any, Any, Any], Any]


@dataclass(frozen=True)
class Elsewhere:
    """A wrong function, its operation, and the causes that a finding may name."""

    name: str
    operation: str
    function: Function
    causes: tuple[str, ...]
    in_place: bool | None = None


ELSEWHERE: list[Elsewhere] = []


def _add(operation: str, name: str, function: Function, *causes: str, in_place: bool | None = None) -> None:
    ELSEWHERE.append(Elsewhere(f"{operation} {name}", operation, function, causes, in_place))


# The parts that most people write alike. Long doubles hold the squares of all gradients.


def wide(array: Any) -> Any:
    """Return an array in long double."""
    return np.asarray(array, np.longdouble)


def norm2(arrays: list[Any]) -> Any:
    """Return the Euclidean norm of all elements."""
    return np.sqrt(sum((np.sum(np.square(wide(a))) for a in arrays), np.longdouble(0)))


def norm_p(arrays: list[Any], p: float) -> Any:
    """Return the norm of order p."""
    return sum((np.sum(np.abs(wide(a)) ** p) for a in arrays), np.longdouble(0)) ** (1 / np.longdouble(p))


def shrink(g: Any, c: Any, n: Any) -> Any:
    """Return the gradient scaled down to the threshold, in its dtype."""
    if n <= c:
        return g.copy()
    return np.asarray(wide(g) * (np.longdouble(c) / n) if np.isfinite(n) else wide(g) * (c / n)).astype(g.dtype)


def check(c: float) -> None:
    """Refuse a threshold that is negative or NaN."""
    if not c >= 0:
        message = "the threshold must not be negative"
        raise ValueError(message)


def count(arrays: list[Any]) -> int:
    """Return the number of elements."""
    return max(sum(np.size(a) for a in arrays), 1)


def by_global(norm: Norm = norm2, scale: Scale = shrink) -> Function:
    """Return a clip by global norm with another norm or another scaling."""

    def clip(grads: Any, *, clip_norm: float, need_clip: Any) -> Any:
        grads = list(grads)
        check(clip_norm)
        n = norm([g for g, k in zip(grads, need_clip, strict=True) if g is not None and k])
        return [g if g is None or not k else scale(g, clip_norm, n) for g, k in zip(grads, need_clip, strict=True)]

    return clip


def by_own(norm: Norm = norm2, scale: Scale = shrink) -> Function:
    """Return a clip by norm with another norm or another scaling."""

    def clip(grads: Any, *, clip_norm: float, need_clip: Any) -> Any:
        check(clip_norm)
        pairs = zip(list(grads), need_clip, strict=True)
        return [g if g is None or not k else scale(g, clip_norm, norm([g])) for g, k in pairs]

    return clip


def by_value(change: Callable[[Any, float, float], Any]) -> Function:
    """Return a clip by value with another change of each gradient."""

    def clip(grads: Any, *, max: float, min: float | None = None, need_clip: Any) -> Any:
        low = -max if min is None else min
        pairs = zip(list(grads), need_clip, strict=True)
        return [g if g is None or not k else np.asarray(change(g, low, max)).astype(g.dtype) for g, k in pairs]

    return clip


GLOBAL, NORM, VALUE, RMS = "clip_by_global_norm", "clip_by_norm", "clip_by_value", "clip_by_block_rms"
AVERAGE, EXAMPLE, UNIT = "clip_by_average_norm", "clip_per_example", "clip_unitwise"

#: Other norms: the operation, what is wrong, the causes, and the norm of some gradients.
NORMS: list[tuple[str, str, str, Norm]] = [
    (GLOBAL, "by the sum of magnitudes", "other-order", lambda a: norm_p(a, 1)),
    (GLOBAL, "adds 1e-6 inside the root", "eps-under-root", lambda a: np.sqrt(norm2(a) ** 2 + np.longdouble(1e-6))),
    (GLOBAL, "by the magnitude of the sum", "signed-powers", lambda a: abs(sum(np.sum(wide(x)) for x in a))),
    (GLOBAL, "adds 1e-12 to the norm", "eps-in-coefficient", lambda a: norm2(a) + np.longdouble(1e-12)),
    (GLOBAL, "divides by the count", "other-average", lambda a: norm2(a) / count(a)),
    (GLOBAL, "counts one less", "mean-of-squares count-off-by-one", lambda a: norm2(a) / np.sqrt(max(count(a) - 1, 1))),
    (GLOBAL, "averages the norms", "mean-of-norms", lambda a: sum(norm2([x]) for x in a) / max(len(a), 1)),
    (GLOBAL, "divides the norm by the number of gradients", "norm-divided", lambda a: norm2(a) / max(len(a), 1)),
    (GLOBAL, "divides the norm by its root", "norm-divided", lambda a: norm2(a) / max(len(a), 1) ** 0.5),
    (GLOBAL, "measures the first only", "gradients-left-out", lambda a: norm2(a[:1])),
    (
        GLOBAL,
        "sums in float32",
        "narrower-arithmetic squares-overflow",
        lambda a: np.longdouble(np.sqrt(np.float32(sum(np.sum(np.square(wide(x))) for x in a)))),
    ),
    (
        GLOBAL,
        "converts to float16 for the norm",
        "narrower-arithmetic squares-overflow",
        lambda a: norm2([np.asarray(x).astype(np.float16) for x in a]),
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
    (RMS, "counts one more", "count-off-by-one", lambda a: norm2(a) / np.sqrt(count(a) + 1)),
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
    (AVERAGE, "takes no root", "no-root other-average unexplained", lambda a: norm2(a) ** 2 / count(a)),
]
for operation, name, causes, norm in NORMS:
    _add(operation, name, by_global(norm) if operation == GLOBAL else by_own(norm), *causes.split())

#: Other scalings: the operation, what is wrong, the causes, and the result for a gradient, a threshold and a norm.
SCALINGS: list[tuple[str, str, str, Scale]] = [
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
        "starts at twice the threshold",
        "threshold-tolerance not-clipped",
        lambda g, c, n: g.copy() if n <= 2 * c else shrink(g, c, n),
    ),
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
    (NORM, "leaves matrices", "not-clipped unexplained", lambda g, c, n: g.copy() if g.ndim > 1 else shrink(g, c, n)),
]
for operation, name, causes, scale in SCALINGS:
    _add(operation, name, by_global(scale=scale) if operation == GLOBAL else by_own(scale=scale), *causes.split())

#: Other clips by value: what is wrong, the causes, and the result for a gradient and its bounds.
VALUES: list[tuple[str, str, Callable[[Any, float, float], Any]]] = [
    ("below only", "value-one-sided", lambda g, low, _: np.maximum(g, low)),
    ("takes the magnitude", "signs-lost", lambda g, low, high: np.clip(np.abs(g), low, high)),
    ("ignores the lower bound", "value-bounds-mirrored", lambda g, _, high: np.clip(g, -high, high)),
    ("zeroes what is outside", "value-outside-zeroed", lambda g, low, high: np.where((g < low) | (g > high), 0, g)),
    ("by tanh", "unexplained", lambda g, _, high: high * np.tanh(wide(g) / high) if high else g * 0),
    (
        "scales the whole gradient",
        "unexplained",
        lambda g, _, high: wide(g) * min(1, high / np.max(np.abs(wide(g)))) if np.any(g) else g,
    ),
    (
        "swaps the bounds",
        "value-bounds-swapped value-bounds-mirrored unexplained",
        lambda g, low, high: np.clip(g, -high, -low),
    ),
]
for name, causes, limit in VALUES:
    _add(VALUE, name, by_value(limit), *causes.split())


# Another threshold.


def budget(power: float) -> Function:
    """Return a clip by global norm that gives each gradient a part of the threshold, by their number."""

    def clip(grads: Any, *, clip_norm: float, need_clip: Any) -> Any:
        grads = list(grads)
        check(clip_norm)
        mine = [i for i, (g, k) in enumerate(zip(grads, need_clip, strict=True)) if g is not None and k]
        part = clip_norm / np.longdouble(max(len(mine), 1)) ** power
        return [shrink(g, part, norm2([g])) if i in mine else g for i, g in enumerate(grads)]

    return clip


_add(GLOBAL, "each by its own norm and a K-th of the threshold", budget(1), "threshold-divided")
_add(GLOBAL, "each by its own norm and a root of the threshold", budget(0.5), "threshold-divided")


def rows(grads: Any, *, clip_norm: float, need_clip: Any) -> Any:
    """Clip each row of a matrix by its own norm."""
    check(clip_norm)

    def one(g: Any) -> Any:
        if g.ndim < 2:
            return shrink(g, clip_norm, norm2([g]))
        n = np.sqrt(np.sum(np.square(wide(g)), axis=-1, keepdims=True))
        with np.errstate(all="ignore"):
            return np.where(n <= clip_norm, wide(g), wide(g) * (clip_norm / n)).astype(g.dtype)

    return [g if g is None or not k else one(g) for g, k in zip(list(grads), need_clip, strict=True)]


_add(NORM, "each row alone", rows, "norm-of-rows", "unexplained")


# Inputs, results and forms.


def scales_excluded(grads: Any, *, clip_norm: float, need_clip: Any) -> Any:
    """Scale excluded gradients, too."""
    grads = list(grads)
    check(clip_norm)
    n = norm2([g for g, k in zip(grads, need_clip, strict=True) if g is not None and k])
    return [g if g is None else shrink(g, clip_norm, n) for g in grads]


_add(GLOBAL, "scales the excluded", scales_excluded, "excluded-changed")


def around(change: Callable[[list[Any]], Any]) -> Function:
    """Return a clip by global norm whose results are changed."""

    def clip(grads: Any, *, clip_norm: float, need_clip: Any) -> Any:
        return change(by_global()(grads, clip_norm=clip_norm, need_clip=need_clip))

    return clip


def concatenate(results: list[Any]) -> Any:
    """Return one vector."""
    return np.concatenate([np.ravel(one) for one in results if one is not None] or [np.zeros(0)])


_add(GLOBAL, "joins", around(concatenate), "malformed", "count-changed")
_add(GLOBAL, "returns a dict", around(lambda r: dict(enumerate(r))), "malformed")
_add(
    GLOBAL,
    "replaces NaN",
    lambda grads, *, clip_norm, need_clip: by_global()(
        [None if g is None else np.nan_to_num(g) for g in grads], clip_norm=clip_norm, need_clip=need_clip
    ),
    "nonfinite-silent",
    "excluded-changed",
)


def make_late() -> Function:
    """Return a clip by the norm of the call before."""
    last: list[Any] = []

    def clip(grads: Any, *, clip_norm: float, need_clip: Any) -> Any:
        grads = list(grads)
        check(clip_norm)
        n = norm2([g for g, k in zip(grads, need_clip, strict=True) if g is not None and k])
        used = last[-1] if last else n
        last[:] = [n]
        return [g if g is None or not k else shrink(g, clip_norm, used) for g, k in zip(grads, need_clip, strict=True)]

    return clip


_add(GLOBAL, "by the norm of the call before", make_late(), "unexplained")


def report(change: Callable[[Any, float], Any]) -> Function:
    """Return a clip by global norm that also returns a norm."""

    def clip(grads: Any, *, clip_norm: float, need_clip: Any) -> Any:
        grads = list(grads)
        n = norm2([g for g, k in zip(grads, need_clip, strict=True) if g is not None and k])
        return by_global()(grads, clip_norm=clip_norm, need_clip=need_clip), float(change(n, clip_norm))

    return clip


_add(
    GLOBAL,
    "reports the coefficient",
    report(lambda n, c: min(1.0, c / n) if n else 1.0),
    "unexplained",
    "coefficient-returned",
)


# Special numbers.


def naive(grads: Any, *, clip_norm: float, need_clip: Any) -> Any:
    """Clip as the formula says, and refuse nothing."""
    grads = list(grads)
    n = norm2([g for g, k in zip(grads, need_clip, strict=True) if g is not None and k])
    with np.errstate(all="ignore"):
        a = np.minimum(1, clip_norm / n)
        return [
            g if g is None or not k else (wide(g) * a).astype(g.dtype) for g, k in zip(grads, need_clip, strict=True)
        ]


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


def negative(grads: Any, *, clip_norm: float, need_clip: Any) -> Any:
    """Take the magnitude of the threshold."""
    return by_global()(grads, clip_norm=abs(clip_norm), need_clip=need_clip)


_add(GLOBAL, "accepts a negative threshold", negative, "negative-threshold")
_add(RMS, "over all gradients", by_global(lambda a: norm2(a) / np.sqrt(count(a))), "norm-of-all", "unexplained")


# Per example.


def per_example(
    add: Callable[[list[Any], float], Any], norm: Callable[[list[Any], int], Any] | None = None
) -> Function:
    """Return a clip per example with another sum or another norm."""

    def clip(grads: Any, *, clip_norm: float) -> Any:
        check(clip_norm)
        grads = list(grads)
        every = []
        for e in range(len(grads[0])):
            mine = [g[e] for g in grads]
            every.append(
                [shrink(np.asarray(x), clip_norm, norm(mine, i) if norm else norm2(mine)) for i, x in enumerate(mine)]
            )
        return [np.asarray(add([one[i] for one in every], clip_norm)).astype(g.dtype) for i, g in enumerate(grads)]

    return clip


_add(
    EXAMPLE,
    "averages",
    per_example(lambda parts, _: np.mean(np.stack([wide(p) for p in parts]), axis=0)),
    "examples-averaged",
)
_add(
    EXAMPLE,
    "squeezes the sum",
    per_example(lambda parts, _: np.squeeze(np.sum(np.stack(parts), axis=0))),
    "shape-changed",
)
_add(
    EXAMPLE,
    "forgets the last",
    per_example(lambda parts, _: np.sum(np.stack(parts[:-1] or parts), axis=0)),
    "unexplained",
    "examples-left-out",
    "gradients-zeroed",
)


def clips_the_sum(grads: Any, *, clip_norm: float) -> Any:
    """Clip the sum over the examples."""
    sums = [np.sum(wide(g), axis=0) for g in grads]
    check(clip_norm)
    n = norm2(sums)
    return [np.asarray(shrink(np.asarray(s), clip_norm, n)).astype(g.dtype) for s, g in zip(sums, grads, strict=True)]


_add(EXAMPLE, "clips the sum", clips_the_sum, "examples-summed-first", "unexplained")


def splits(power: float) -> Function:
    """Return a clip per example by layers that divides the threshold by another power of their number."""

    def clip(grads: Any, *, clip_norm: float, layers: str | None = None) -> Any:
        check(clip_norm)
        grads = list(grads)
        results = []
        for g in grads:
            parts = []
            for e in range(len(g)):
                mine = [x[e] for x in grads]
                if layers is None:
                    parts.append(shrink(np.asarray(g[e]), clip_norm, norm2(mine)))
                else:
                    parts.append(shrink(np.asarray(g[e]), clip_norm / len(grads) ** power, norm2([g[e]])))
            results.append(np.asarray(np.sum(np.stack(parts), axis=0)).astype(g.dtype))
        return results

    return clip


_add(EXAMPLE, "gives each layer a K-th of the threshold", splits(1.0), "threshold-divided")


# Unitwise.


def unitwise(norm: Callable[[Any, str], Any], limit: Callable[[Any, float], Any] = np.maximum) -> Function:
    """Return a unitwise clip with other norms of units, or another limit of their parameters' norms."""

    def clip(grads: Any, *, clip_factor: float, parameters: Any, need_clip: Any, eps: float = 1e-3) -> Any:
        check(clip_factor)
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
    """Return the norm of each row."""
    return np.sqrt(np.sum(np.square(x), axis=tuple(range(1, x.ndim)) if x.ndim > 1 else None, keepdims=True))


def measure_columns(x: Any, _: str) -> Any:
    """Return the norm of each column."""
    return np.sqrt(np.sum(np.square(x), axis=0 if x.ndim > 1 else None, keepdims=True))


_add(UNIT, "columns", unitwise(measure_columns), "other-units")
_add(UNIT, "whole tensors", unitwise(lambda x, _: norm2([x])), "other-units")
_add(UNIT, "has no eps", unitwise(measure_rows, lambda w, _: w), "unexplained", "eps-ignored")
_add(
    UNIT,
    "by the parameter's whole norm",
    unitwise(lambda x, of: norm2([x]) if of == "parameter" else measure_rows(x, of)),
    "unexplained",
    "other-units",
)
_add(
    UNIT,
    "by the magnitude of the parameter's sum",
    unitwise(
        lambda x, of: (
            measure_rows(x, of)
            if of == "gradient"
            else np.abs(np.sum(x, axis=tuple(range(1, x.ndim)) if x.ndim > 1 else None, keepdims=True))
        )
    ),
    "unexplained",
)
