"""Draw inputs. A draft states the demands on an input, and drawing fills in the rest.

Most demands are about one gradient, the *watched* one, for which a trigger must hold.

The numbers are chosen so that exact arithmetic on them is cheap: a long gradient has few different values.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from gradclip_adapters.arrays import lay_out

from .facts import NORMS, Array, Work

DTYPES = ("float16", "float32", "float64")

#: The ranges of threshold / norm for each relation between the two.
RELATIONS = {
    "far below": (16.0, 64.0),
    "below": (1.2, 4.0),
    "just below": (1.002, 1.008),
    "at": (1.0, 1.0),
    "just above": (0.992, 0.998),
    "above": (0.2, 0.8),
    "far above": (1 / 64, 1 / 16),
}


@dataclass
class Draft:
    """The demands on an input. None means no demand."""

    operation: str
    in_place: bool = False
    dtype: str | None = None
    #: The dtype of other gradients: "same", or "narrower" or "wider" than the watched one.
    beside: str | None = None
    number: tuple[int, int] | None = None
    index: tuple[int, int] | None = None
    last: bool = False
    size: tuple[int, int] | None = None
    #: A number that should not divide the size. It is 1 for no demand.
    uneven: int = 1
    shape: str | None = None
    layout: str | None = None
    relation: str | None = None
    filling: str | None = None
    magnitude: str | None = None
    threshold: str | None = None
    norm_type: float | None = None
    norm_given: bool | None = None
    error_flag: bool | None = None
    min_given: bool | None = None
    #: Whether the watched gradient is excluded, and which other gradients are excluded.
    is_excluded: bool = False
    excluded: set[str] = field(default_factory=set)
    nones: set[str] = field(default_factory=set)


def draw_input(draft: Draft, rng: random.Random) -> tuple[Work, int]:
    """Return a call that tries to meet the draft, and the place of the watched gradient."""
    number, index = _draw_place(draft, rng)
    dtype = draft.dtype or rng.choice(DTYPES)
    flags = _draw_flags(draft, number, index, rng)
    absent = _draw_absent(draft, number, index, rng)
    if draft.relation == "at" and draft.operation in NORMS:
        draft = replace(draft, filling=draft.filling or "triangle")
    grads: list[Any] = []
    # A long list repeats gradients, so that it is drawn quickly.
    others = [_draw_other(draft, dtype, rng) for _ in range(min(number, 8))]
    for i in range(number):
        if i in absent:
            grads.append(None)
        elif i == index:
            grads.append(_draw_watched(draft, dtype, rng))
        else:
            grads.append(rng.choice(others).copy() if number > 8 else others[i])
    work = Work(draft.operation, grads, flags, 1.0, in_place=draft.in_place)
    _set_options(work, draft, rng)
    _set_threshold(work, index, draft, rng)
    return work, index


def _set_options(work: Work, draft: Draft, rng: random.Random) -> None:
    if not work.about.is_by_norm:
        return
    work.norm_type = draft.norm_type if draft.norm_type is not None else rng.choice((2.0, 2.0, 2.0, 1.0, math.inf))
    work.norm_given = work.norm_type != 2 or rng.random() < 0.5
    if draft.norm_given is not None:
        work.norm_given = draft.norm_given
        work.norm_type = work.norm_type if draft.norm_given else 2.0
    if work.about.is_global:
        work.error_flag = draft.error_flag


def _draw_place(draft: Draft, rng: random.Random) -> tuple[int, int]:
    low, high = draft.number or (1, 4)
    if draft.index is not None:
        index = rng.randint(*draft.index)
        number = max(rng.randint(low, high), index + 1) if draft.number else index + 1 + rng.choice((0, 0, 1, 3))
    else:
        number = rng.randint(low, high)
        index = rng.choice((0, number - 1, rng.randrange(number)))
    if draft.last:
        index = number - 1 if draft.index is None or number - 1 <= draft.index[1] else index
        number = index + 1
    needed = sum((bool(draft.excluded - {"first"}), bool(draft.nones), draft.beside is not None))
    return (max(number, index + 2) if needed else number), index


def _draw_flags(draft: Draft, number: int, index: int, rng: random.Random) -> list[bool]:
    kinds = draft.excluded
    if "all" in kinds:
        return [False] * number
    if "others" in kinds:
        return [i == index for i in range(number)]
    share = rng.choice((0.0, 0.0, 0.3))
    flags = [rng.random() >= share for _ in range(number)]
    if "none" in kinds:
        flags = [True] * number
    if "some" in kinds and number > 1:
        flags[rng.choice([i for i in range(number) if i != index])] = False
    if "first" in kinds:
        flags[0] = False
    if "last" in kinds:
        flags[-1] = False
    flags[index] = not draft.is_excluded
    return flags


def _draw_absent(draft: Draft, number: int, index: int, rng: random.Random) -> set[int]:
    others = [i for i in range(number) if i != index]
    found = {i for i in others if rng.random() < rng.choice((0.0, 0.0, 0.2))} if number < 50 else set()
    if "none" in draft.nones:
        return set()
    if "first" in draft.nones and index > 0:
        found.add(0)
    if "last" in draft.nones and index < number - 1:
        found.add(number - 1)
    if "some" in draft.nones and others:
        found.add(rng.choice(others))
    if "before" in draft.nones and index > 0:
        found.add(index - 1)
    return found


def _draw_shape(draft: Draft, rng: random.Random) -> tuple[int, ...]:
    kind = draft.shape or rng.choice(("vector", "vector", "matrix", "any"))
    if draft.layout in ("transposed", "sliced", "broadcast", "strided") and draft.shape is None:
        kind = rng.choice(("matrix", "odd width", "even width", "three axes"))
    if kind == "none":
        return ()
    size = _draw_size(draft, rng)
    if kind == "square":
        side = math.isqrt(max(size - 1, 0)) + 1
        return (side, side)
    widths = {
        "odd width": (3, 5, 7, 33, 129),
        "even width": (2, 4, 6, 32, 130),
        "one row": (size,),
        "one column": (1,),
        "matrix": (2, 3, 5, 8),
        "three axes": (2, 3, 4),
        "five axes": (2, 3),
        "any": (2, 3, 4, 7),
    }
    if kind == "vector" or size < 2:
        return (size,) if kind in ("vector", "any") else (1, size)
    fitting = [width for width in widths[kind] if width <= max(size, 3)]
    width = rng.choice(fitting)
    # Round so that the size stays on its side of the limits.
    rows = size // width if draft.size and size // width * width >= draft.size[0] else -(-size // width)
    if kind == "three axes":
        return (rng.choice((1, 2)), max(rows, 2), width)
    if kind == "five axes":
        return (1, 2, max(-(-rows // 2), 1), 1, width)
    return (max(rows, 1), width)


def _draw_size(draft: Draft, rng: random.Random) -> int:
    low, high = draft.size or rng.choice(((1, 3), (2, 9), (4, 40), (20, 300)))
    size = rng.randint(low, high)
    for _ in range(4):
        if draft.uneven <= 1 or size % draft.uneven:
            break
        size = min(size + 1, high)
    return size


def _draw_watched(draft: Draft, dtype: str, rng: random.Random) -> Array:
    shape = _draw_shape(draft, rng)
    filling = draft.filling or rng.choice(USUAL)
    values = _scale(_fill(filling, math.prod(shape), dtype, rng), draft.magnitude, dtype, rng)
    return lay_out(values.reshape(shape), draft.layout or rng.choice(("contiguous", "contiguous", "strided")))


def _draw_other(draft: Draft, dtype: str, rng: random.Random) -> Array:
    dtypes = {"narrower": DTYPES[: DTYPES.index(dtype)], "wider": DTYPES[DTYPES.index(dtype) + 1 :]}
    dtype = rng.choice(dtypes.get(draft.beside or "", ()) or (dtype,))
    size = rng.choice((1, 1, 2, 3, 5))
    if draft.filling == "triangle" and draft.relation == "at":
        values = np.zeros(size, dtype)
    else:
        values = _fill(rng.choice(("mixed", "fractions")), size, dtype, rng)
    # Keep the other gradients small, so that the watched one still matters.
    values = values / 8 if rng.random() < 0.5 else values
    return _scale(values.astype(dtype), draft.magnitude, dtype, rng)


def _scale(values: Array, magnitude: str | None, dtype: str, rng: random.Random) -> Array:
    info = np.finfo(dtype)
    top = math.frexp(float(info.max))[1]
    bottom = math.frexp(float(info.tiny))[1]
    shifts = {"squares over": top // 2 + 4, "sum over": top // 2 - 2}
    shifts |= {"squares under": bottom // 2 - 5, "subnormal": bottom - 6}
    shift = shifts.get(magnitude or "")
    if shift is None:
        return values
    with np.errstate(over="ignore"):
        return np.ldexp(values, shift).astype(dtype)


def _set_threshold(work: Work, index: int, draft: Draft, rng: random.Random) -> None:
    """Set the threshold, with few digits, so that every dtype holds it."""
    if draft.threshold == "zero":
        work.threshold = 0.0
    elif draft.threshold == "infinite":
        work.threshold = math.inf
    else:
        facts = work.list_facts()[index]
        assert facts is not None
        norm = facts.ratio if math.isfinite(facts.ratio) and facts.ratio else 3.0
        relation = draft.relation or rng.choice(("above", "above", "far above", "just above", "below", "at"))
        factor = rng.uniform(*RELATIONS[relation])
        work.threshold = norm if relation == "at" else _shorten(norm * factor)
        if draft.threshold == "integer":
            work.threshold = max(1, round(work.threshold))
        if draft.threshold == "power of two":
            work.threshold = 2.0 ** round(math.log2(work.threshold))
    min_given = rng.random() < 0.5 if draft.min_given is None else draft.min_given
    if not work.about.is_by_norm and math.isfinite(work.threshold) and min_given:
        work.low = -_shorten(work.threshold * rng.uniform(0.25, 2.0))


def _shorten(value: float) -> float:
    """Return the number rounded to ten binary digits."""
    fraction, exponent = math.frexp(value)
    return math.ldexp(round(fraction * 1024), exponent - 10)


#: The kinds to draw if a draft demands no filling. Three of them have a large element, whose loss changes the norm.
USUAL = ("mixed", "mixed", "fractions", "largest last", "largest first", "one large among small", "powers")


#: A function that changes the elements of a gradient.
Filling = Callable[[Array, random.Random, np.random.Generator], Array]


def _set(x: Array, place: int, value: float) -> Array:
    x[place] = value
    return x


def _draw_heavy(size: int) -> float:
    """Return a number whose square is larger than the sum of the squares of all other elements."""
    return 8 * float(2 ** min(10, 2 + math.ceil(math.log2(size + 1)) // 2))


def _draw_triangle(x: Array, rng: random.Random, base: np.random.Generator) -> Array:
    """Set two elements to 3 and 4 and all others to zero, so that the norm is exactly 5."""
    x[:] = 0.0
    x[rng.randrange(x.size)], x[rng.choice((0, x.size - 1))] = 3.0, 4.0
    return x


FILLINGS: dict[str, Filling] = {
    "mixed": lambda x, rng, base: x,
    "fractions": lambda x, rng, base: base.choice(base.standard_normal(16), x.size),
    "powers": lambda x, rng, base: np.exp2(base.integers(-6, 4, x.size)) * np.sign(x),
    "squares": lambda x, rng, base: np.sign(x) * base.choice([0.25, 1.0, 4.0, 9.0, 16.0], x.size),
    "largest last": lambda x, rng, base: _set(x, -1, _draw_heavy(x.size)),
    "largest first": lambda x, rng, base: _set(x, 0, _draw_heavy(x.size)),
    "one large among small": lambda x, rng, base: _set(x, rng.randrange(x.size), _draw_heavy(x.size)),
    "triangle": _draw_triangle,
    "constant": lambda x, rng, base: np.full(x.size, rng.choice((1.5, -2.0, 3.0))),
    "all negative": lambda x, rng, base: -np.abs(x),
    "all positive": lambda x, rng, base: np.abs(x),
    "alternating signs": lambda x, rng, base: np.abs(x) * np.where(np.arange(x.size) % 2, -1.0, 1.0),
    "first equal to last": lambda x, rng, base: np.concatenate([x[:-1], x[:1]]),
    "ascending": lambda x, rng, base: np.sort(x),
    "zeros": lambda x, rng, base: _set(x, rng.randrange(x.size), 0.0),
    "minus zero": lambda x, rng, base: _set(x, rng.randrange(x.size), -0.0),
    "nan": lambda x, rng, base: _set(x, rng.randrange(x.size), math.nan),
    "infinity": lambda x, rng, base: _set(x, rng.randrange(x.size), rng.choice((math.inf, -math.inf))),
    "nonfinite first": lambda x, rng, base: _set(x, 0, rng.choice((math.nan, math.inf))),
    "nonfinite last": lambda x, rng, base: _set(x, -1, rng.choice((math.nan, math.inf))),
}


def _fill(kind: str, size: int, dtype: str, rng: random.Random) -> Array:
    """Return `size` elements of a kind. Most kinds have few different values."""
    base = np.random.default_rng(rng.getrandbits(32))
    x = base.choice(np.array([-3.0, -2.0, -1.0, 1.0, 2.0, 3.0]), size)
    return (FILLINGS[kind](x, rng, base) if size else x).astype(dtype)
