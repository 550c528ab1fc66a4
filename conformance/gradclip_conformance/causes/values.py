"""Predict wrong results of a clip by value, for example if bounds are ignored or rounded, or NaN is lost."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Collection, Iterator
from functools import partial

import numpy as np
import numpy.typing as npt

from gradclip_adapters.contract import DTYPES

from ..oracle.formats import FORMATS, read_float64_values
from ..oracle.question import get_bounds
from .facts import SCALING_ERROR, Seen, round_doubles
from .model import Explanation

Doubles = npt.NDArray[np.float64]

#: A function that gives the results of elements in a dtype.
Model = Callable[[Doubles, str], Doubles]


def list_values(seen: Seen, barred: Collection[str] = ()) -> list[Explanation]:
    """Return each cause that reproduces the result of every included gradient. Leave out barred causes."""
    case, pairs = seen.case, _list_pairs(seen)
    low, high = get_bounds(case)
    if not pairs or case.options.get("learning_rate", 1.0) != 1.0 or np.isnan([low, high]).any() or low > high:
        return []
    flushed = "subnormals-flushed" not in barred and all(_is_flushed(*pair, low, high) for pair in pairs)
    found = [Explanation.predict("subnormals-flushed")] if flushed else []
    found += [
        explanation
        for explanation, model in _list_models(low, high)
        if explanation.cause not in barred
        and all(_are_equal(model(before, dtype), after) for before, after, dtype in pairs)
    ]
    partly = all(_is_partly_clipped(before, after, _clip(before, low, high, dtype)) for before, after, dtype in pairs)
    if partly and "not-clipped" not in barred:
        found.append(Explanation.describe("not-clipped", "unclipped", effect="some"))
    if high > 0 and all(_is_scaled_to(high, *pair) for pair in pairs):
        found.append(Explanation.predict("value-scaled"))
    return list(dict.fromkeys(found))


def _list_pairs(seen: Seen) -> list[tuple[Doubles, Doubles, str]]:
    """Return the elements of each included gradient before and after the clip, and its dtype."""
    return [
        (read_float64_values(given), read_float64_values(got), given.dtype)
        for i in seen.case.included
        if (given := seen.case.gradients[i].array) is not None
        and (got := seen.results[i]) is not None
        and got.dtype in DTYPES
    ]


def _is_scaled_to(high: float, before: Doubles, after: Doubles, dtype: str) -> bool:
    """Return whether all elements are divided by one number, so that the largest magnitude is `high`."""
    largest = float(np.abs(before).max(initial=0.0))
    if before.shape != after.shape or not math.isfinite(largest):
        return False
    factor = min(1.0, high / largest) if largest else 1.0
    spacing = np.abs(after) * 2.0 ** (1 - FORMATS[dtype].precision) + float(FORMATS[dtype].smallest_subnormal)
    return bool((np.abs(after - before * factor) <= SCALING_ERROR * spacing).all())


def _is_partly_clipped(before: Doubles, after: Doubles, right: Doubles) -> bool:
    """Return whether each element is right or unchanged."""
    if before.shape != after.shape:
        return False
    return bool(((after == right) | (after == before) | (np.isnan(after) & np.isnan(before))).all())


def is_right_value(seen: Seen) -> bool:
    """Return whether the included gradients hold the right numbers."""
    low, high = get_bounds(seen.case)
    return all(_are_equal(_clip(before, low, high, dtype), after) for before, after, dtype in _list_pairs(seen))


def changes_signs_of_zeros(seen: Seen) -> bool:
    """Return whether a zero that was passed comes back with the other sign."""
    return any(
        ((before == 0) & (after == 0) & (np.signbit(before) != np.signbit(after))).any()
        for before, after, _ in _list_pairs(seen)
    )


def _list_models(low: float, high: float) -> Iterator[tuple[Explanation, Model]]:
    yield Explanation.describe("not-clipped", "unclipped"), lambda x, _: x
    # If all elements are near a bound, several numbers explain the results. The nearest one to the bound comes first.
    for least, most in itertools.product(_list_neighbours(low), _list_neighbours(high)):
        yield Explanation.predict("value-bounds-rounded", dtype="float32"), _clip_between(least, most)
    bounds = {narrow: round_doubles(np.array([low, high]), narrow).tolist() for narrow in NARROW}
    for narrow, (least, most) in bounds.items():
        yield Explanation.predict("value-bounds-rounded", dtype=narrow), _clip_between(least, most)
    for narrow, (least, most) in bounds.items():
        yield (
            Explanation.predict("narrower-arithmetic", dtype=narrow),
            _clip_between(least, most, partial(round_doubles, dtype=narrow)),
        )
    yield Explanation.predict("value-one-sided", bound="max"), _clip_between(-np.inf, high)
    yield Explanation.predict("value-one-sided", bound="min"), _clip_between(low, np.inf)
    for number in (high, low, 0.0):
        yield Explanation.of("value-nan-lost"), _clip_between(low, high, partial(_replace_nan, number))
    for least, most in ((-high, high), (low, -low), (-high, -low), (-low, high)):
        yield Explanation.predict("value-bounds-mirrored"), _clip_between(least, most)
    for change in _list_exchanges(low, high):
        yield Explanation.predict("value-bounds-exchanged"), _clip_between(-np.inf, np.inf, change)
    for least, most in ((0.0, high), (low, 0.0)):
        yield Explanation.predict("value-bound-zero"), _clip_between(least, most)
    yield (
        Explanation.predict("value-outside-zeroed"),
        _clip_between(-np.inf, np.inf, lambda x: np.where((x < low) | (x > high), 0.0, x)),
    )
    yield Explanation.predict("signs-lost"), _clip_between(low, high, np.abs)
    yield Explanation.predict("signs-lost"), lambda x, dtype: np.abs(_clip(x, low, high, dtype))
    for whole in (np.trunc, np.round, np.floor, np.ceil):
        yield Explanation.predict("threshold-rounded"), _clip_between(float(whole(low)), float(whole(high)))
    yield Explanation.describe("gradients-zeroed", "destroyed"), lambda x, _: np.zeros_like(x)
    yield Explanation.describe("gradients-nan", "destroyed"), lambda x, _: np.full_like(x, np.nan)


#: The dtypes to which bounds or gradients may be rounded, widest first.
NARROW = ("float32", "bfloat16", "float16")


def _clip_between(low: float, high: float, change: Callable[[Doubles], Doubles] = lambda x: x) -> Model:
    """Return the model that changes the elements, and clips them to other bounds."""
    return lambda x, dtype: _clip(change(x), low, high, dtype)


def _list_exchanges(low: float, high: float) -> Iterator[Callable[[Doubles], Doubles]]:
    """Yield the ways to clip to a lower bound of `high` and an upper bound of `low`: the last step decides."""
    yield lambda x: np.minimum(np.maximum(x, high), low)
    yield lambda x: np.maximum(np.minimum(x, low), high)
    yield lambda x: np.where(x < high, high, np.where(x > low, low, x))
    yield lambda x: np.where(x > low, low, np.where(x < high, high, x))


def _replace_nan(number: float, values: Doubles) -> Doubles:
    return np.where(np.isnan(values), number, values)


def _list_neighbours(bound: float) -> list[float]:
    """Return numbers of float32 beside a bound: a framework may pass bounds as texts, and misread digits."""
    with np.errstate(over="ignore"):
        single = np.float32(bound)
        return [float(np.nextafter(single, np.float32(to))) for to in (-math.inf, single, math.inf)]


def _clip(values: Doubles, low: float, high: float, dtype: str) -> Doubles:
    return round_doubles(np.minimum(np.maximum(values, low), high), dtype)


def _is_flushed(values: Doubles, got: Doubles, dtype: str, low: float, high: float) -> bool:
    """Return whether each element is right, or right if subnormal numbers are flushed to zero in one of three places.

    The first place is the result, the second is the gradient together with the bounds, and the third is a comparison.
    Of two numbers that compare as equal, some instructions of processors return the second one, which is the bound.
    The loop over vectors and the loop over the rest of a gradient may flush in different places.
    """
    smallest = float(FORMATS[dtype].smallest_normal)

    def flush(numbers: Doubles) -> Doubles:
        return np.where(np.abs(numbers) < smallest, 0.0, numbers)

    if values.shape != got.shape:
        return False
    least, most = flush(np.array([low, high]))
    compared = np.where(flush(values) < least, low, np.where(flush(values) > most, high, values))
    raised = np.where(flush(values) <= least, low, values)
    bounded = np.where(flush(raised) >= most, high, raised)
    right = _clip(values, low, high, dtype)
    ways = [right, flush(right), _clip(flush(values), least, most, dtype)]
    ways += [_clip(one, -np.inf, np.inf, dtype) for one in (compared, bounded)]
    agrees = [(got == way) | (np.isnan(got) & np.isnan(way)) for way in ways]
    return bool(np.logical_or.reduce(agrees).all())


def _are_equal(predicted: Doubles, got: Doubles) -> bool:
    return predicted.shape == got.shape and np.array_equal(predicted, got, equal_nan=True)
