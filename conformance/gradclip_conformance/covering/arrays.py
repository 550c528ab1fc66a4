"""Make the gradients and the options of a row by recipes (see `gradclip_adapters.recipes`)."""

from __future__ import annotations

import math
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np

from gradclip_adapters.contract import Array, Gradient
from gradclip_adapters.recipes import Recipe, expand

from ..oracle.formats import FORMATS, float64_values, next_down, next_up, round_all, to_doubles
from .shapes import choose_number, choose_shape, choose_size, small_size

__all__ = ["Made", "make_call", "norm_order"]

NEAR = ("just-below", "at", "just-above")


#: The exponent of most elements for each magnitude.
EXPONENTS = {
    "float16": {"ordinary": -6, "squares-over": 9, "sum-over": 5, "squares-under": -13},
    "bfloat16": {"ordinary": -3, "squares-over": 66, "sum-over": 61, "squares-under": -80},
    "float32": {"ordinary": -3, "squares-over": 66, "sum-over": 61, "squares-under": -80},
    "float64": {"ordinary": -3, "squares-over": 520, "sum-over": 509, "squares-under": -560},
}

#: With an int as threshold the elements are of this size.
WHOLE = 2

#: In float16, few elements have squares that overflow: the norm of many would overflow, too.
RARE = 4096

#: The quotient of threshold and norm, or of bound and smallest element.
FACTORS = {"above": 0.5, "far-below": 50.0, "below": 2.0, "far-above": 0.02}
BOUND_FACTORS = {"above": 1.75, "far-below": 200.0, "below": 8.0, "far-above": 0.02}

#: The small arrays beside the longest one have so many different digits.
SEEDS = 5

#: The digits of a threshold that depend on a norm, whose last digits may differ between two machines.
SURE_DIGITS = 7


@dataclass(frozen=True)
class Made:
    """The parts of a call."""

    gradients: tuple[Gradient, ...]
    options: Mapping[str, Any]


def norm_order(word: str) -> float:
    """Return the order of a level of the axis `norm`."""
    return 2.0 if word == "no-norm" else math.inf if word == "p-inf" else float(word.removeprefix("p"))


def make_call(operation: str, levels: Mapping[str, str]) -> Made:
    """Return the call of a row; `levels` holds the word of each axis."""
    draw = zlib.crc32("_".join(levels.values()).encode())
    count = choose_number(levels["number"], draw)
    excluded = _indices(levels["excluded"], count)
    missing = set() if levels["none"] == "all-there" else _indices(levels["none"], count)
    longest = {"long-first": 0, "long-middle": count // 2}.get(levels["place"], count - 1)
    dtypes = levels["dtype"].split("+")
    exact = operation != "value" and levels["relation"] in NEAR
    counted = [place for place in range(count) if place not in excluded | missing]
    weighty = longest if longest in counted else counted[0] if counted else -1
    gradients = []
    for place in range(count):
        array = None
        if place not in missing:
            shape = _shape(levels, draw, place, is_longest=place == longest)
            zeros = exact and operation == "global-norm" and place != weighty
            array = _array(levels, dtypes[place % len(dtypes)], shape, place, longest, zeros=zeros)
        gradients.append(Gradient(f"g{place}", array, place not in excluded, _layout(levels["layout"])))
    options = (
        _bounds(levels, gradients, weighty)
        if operation == "value"
        else _threshold(operation, levels, gradients, weighty)
    )
    if levels.get("flag", "no-flag") != "no-flag":
        options["error_if_nonfinite"] = levels["flag"] == "strict"
    if levels["repeated"] == "reused":
        options["reused"] = True
    return Made(tuple(gradients), options)


def _layout(word: str) -> str:
    return {"fortran": "transposed", "gaps": "sliced"}.get(word, word)


def _indices(word: str, count: int) -> set[int]:
    """Return the places that a level of `excluded` or `none` names."""
    every = set(range(count))
    return {
        "all-in": set(),
        "x-all": every,
        "none-all": every,
        "x-but-one": every - {max(0, count - 2)},
        "x-from-32": {place for place in every if place >= 32},
        "x-from-64": {place for place in every if place >= 64},
    }.get(word) or ({"first": {0}, "middle": {count // 2}, "last": {count - 1}}.get(word.partition("-")[2], set()))


def _shape(levels: Mapping[str, str], draw: int, place: int, *, is_longest: bool) -> tuple[int, ...]:
    size, low, high = choose_size(levels["size"], draw // 16)
    if not is_longest:
        size = small_size(draw + place, size)
        low, high = min(1, size), max(size, 1)
    return choose_shape(levels["shape"], size, low, high)


def _array(
    levels: Mapping[str, str], dtype: str, shape: tuple[int, ...], place: int, longest: int, *, zeros: bool
) -> Array:
    kind, magnitude = levels["data"], levels["magnitude"]
    if kind.startswith(("nan", "infinity")) and place != longest:
        kind = "numbers"
    exponent, every, rest = EXPONENTS[dtype][magnitude], 0, 0
    if levels["threshold"] == "integer":
        exponent = WHOLE
    if (dtype, magnitude) == ("float16", "squares-over"):
        if place == longest:
            every, rest = RARE, EXPONENTS[dtype]["ordinary"]
        else:
            exponent = EXPONENTS[dtype]["ordinary"]
    period = math.prod(shape[1:]) if levels["layout"] == "broadcast" and shape else 0
    recipe = Recipe("zero" if zeros else kind, 0, exponent, period, every, rest)
    if place == longest:
        return Array(dtype, shape, expand(recipe, dtype, shape), recipe)
    return _small(replace(recipe, seed=1 + place % SEEDS), dtype, shape)


@lru_cache(maxsize=1 << 14)
def _small(recipe: Recipe, dtype: str, shape: tuple[int, ...]) -> Array:
    """Return an array beside the longest one; there are few of them, and many rows hold them."""
    return Array(dtype, shape, expand(recipe, dtype, shape), recipe)


def _threshold(
    operation: str, levels: Mapping[str, str], gradients: Sequence[Gradient], weighty: int
) -> dict[str, Any]:
    """Return the options of a clip by norm."""
    options: dict[str, Any] = {}
    order = norm_order(levels["norm"])
    if levels["norm"] != "no-norm":
        options["norm_type"] = order
    chosen = [g.array for i, g in enumerate(gradients) if g.array is not None and g.need_clip]
    if operation == "norm" or levels["relation"] in NEAR:
        chosen = [array for array in [gradients[weighty].array] if array is not None] if weighty >= 0 else []
    norm, relation = _norm_of(chosen, order), levels["relation"]
    if relation in ("zero", "infinite"):
        threshold: float = 0.0 if relation == "zero" else math.inf
    elif relation in NEAR:
        threshold = _neighbour(norm or 1.0, relation, _narrowest(gradients))
    elif levels["threshold"] == "integer":
        return {"clip_norm": max(1, round(_sure(norm * FACTORS[relation]))), **options}
    else:
        threshold = _many_digits(norm * FACTORS[relation] or 1.0, _narrowest(gradients))
    return {"clip_norm": threshold, **options}


def _bounds(levels: Mapping[str, str], gradients: Sequence[Gradient], weighty: int) -> dict[str, Any]:
    """Return the options of a clip by value."""
    relation, dtype = levels["relation"], _narrowest(gradients)
    unit = _unit(levels, gradients)
    high: float = 0.0
    if relation == "infinite":
        high = math.inf
    elif relation in NEAR:
        array = gradients[weighty].array if weighty >= 0 else None
        values = np.abs(float64_values(array)) if array is not None else np.zeros(0)
        values = values[np.isfinite(values)]
        largest = float(values.max()) if values.size else unit
        high = _neighbour(_rounded(largest, dtype) or unit, relation, dtype)
    elif levels["threshold"] == "integer":
        high = {"above": 7, "below": 32}[relation]
    elif relation != "zero":
        high = _many_digits(unit * BOUND_FACTORS[relation], dtype)
    if levels["bounds"] == "max-only":
        return {"max": high}
    return {"max": high, "min": -unit if high in (0.0, math.inf) else -_halved(high, dtype)}


def _halved(high: float, dtype: str) -> float:
    return high // 2 if isinstance(high, int) else _rounded(high / 2, dtype)


def _unit(levels: Mapping[str, str], gradients: Sequence[Gradient]) -> float:
    """Return the size of the smaller elements."""
    if levels["threshold"] == "integer":
        return 2.0**WHOLE
    dtype = _narrowest(gradients)
    return 2.0 ** EXPONENTS[dtype][levels["magnitude"]]


def _narrowest(gradients: Sequence[Gradient]) -> str:
    """Return the dtype with the fewest digits among those that are given."""
    names = [gradient.array.dtype for gradient in gradients if gradient.array is not None] or ["float32"]
    return min(names, key=lambda name: FORMATS[name].precision)


def _norm_of(arrays: Sequence[Array], order: float) -> float:
    """Return the norm of the finite elements, nearly."""
    values = np.abs(np.concatenate([np.zeros(1), *map(float64_values, arrays)]))
    values = values[np.isfinite(values)]
    scale = float(values.max())
    if scale == 0 or order == math.inf:
        return scale
    return float(scale * ((values / scale) ** order).sum() ** (1 / order))


def _neighbour(value: float, relation: str, dtype: str) -> float:
    """Return a threshold beside the norm: below it if the norm is just above, and the other way round."""
    if relation == "at":
        return value
    return next_down(value, dtype) if relation == "just-above" else next_up(value, dtype)


def _sure(value: float) -> float:
    """Return a number rounded to the digits on which all machines agree."""
    fraction, exponent = math.frexp(value)
    return math.ldexp(round(fraction * 2**SURE_DIGITS), exponent - SURE_DIGITS)


def _many_digits(value: float, dtype: str) -> float:
    """Return a number near `value` that uses all digits of a dtype, and is within its range."""
    form = FORMATS[dtype]
    value = min(value, float(form.largest) / 2)
    fraction, exponent = math.frexp(_sure(value))
    digits = form.precision - SURE_DIGITS
    whole = (int(fraction * 2**SURE_DIGITS) << digits) | (0x1555555555555555 >> (61 - digits))
    return _rounded(math.ldexp(whole, exponent - form.precision), dtype)


def _rounded(value: float, dtype: str) -> float:
    return float(to_doubles(round_all(np.array([value]), dtype), dtype)[0])
