"""Draw the elements of a gradient, by the name of a kind."""

from __future__ import annotations

import math
import random
from collections.abc import Callable

import numpy as np

from .facts import Array

__all__ = ["USUAL", "fill"]

#: The kinds to draw if a draft demands none. Three of them have a large element, whose loss changes the norm.
USUAL = ("mixed", "mixed", "fractions", "largest last", "largest first", "one large among small", "powers")


Kind = Callable[[Array, random.Random, np.random.Generator], Array]


def _set(place: Callable[[int, random.Random], int], value: Callable[[int, random.Random], float]) -> Kind:
    """Return a kind that sets one element."""

    def change(x: Array, rng: random.Random, base: np.random.Generator) -> Array:
        x[place(x.size, rng)] = value(x.size, rng)
        return x

    return change


def _draw_heavy(size: int, rng: random.Random) -> float:
    """Return a number whose square is larger than the sum of the squares of all other elements."""
    return 8 * float(2 ** min(10, 2 + math.ceil(math.log2(size + 1)) // 2))


def _choose_first(size: int, rng: random.Random) -> int:
    return 0


def _choose_last(size: int, rng: random.Random) -> int:
    return size - 1


def _choose_anywhere(size: int, rng: random.Random) -> int:
    return rng.randrange(size)


def _draw_triangle(x: Array, rng: random.Random, base: np.random.Generator) -> Array:
    """Set two elements to 3 and 4 and all others to zero, so that the norm is exactly 5."""
    x[:] = 0.0
    x[rng.randrange(x.size)], x[rng.choice((0, x.size - 1))] = 3.0, 4.0
    return x


def _draw_powers(x: Array, rng: random.Random, base: np.random.Generator) -> Array:
    return np.asarray(np.exp2(base.integers(-6, 4, x.size)) * np.sign(x))


KINDS: dict[str, Kind] = {
    "mixed": lambda x, rng, base: x,
    "fractions": lambda x, rng, base: base.choice(base.standard_normal(16), x.size),
    "powers": _draw_powers,
    "squares": lambda x, rng, base: np.sign(x) * base.choice([0.25, 1.0, 4.0, 9.0, 16.0], x.size),
    "largest last": _set(_choose_last, _draw_heavy),
    "largest first": _set(_choose_first, _draw_heavy),
    "one large among small": _set(_choose_anywhere, _draw_heavy),
    "triangle": _draw_triangle,
    "constant": lambda x, rng, base: np.full(x.size, rng.choice((1.5, -2.0, 3.0))),
    "all negative": lambda x, rng, base: -np.abs(x),
    "all positive": lambda x, rng, base: np.abs(x),
    "alternating signs": lambda x, rng, base: np.abs(x) * np.where(np.arange(x.size) % 2, -1.0, 1.0),
    "first equal to last": lambda x, rng, base: np.concatenate([x[:-1], x[:1]]),
    "ascending": lambda x, rng, base: np.sort(x),
    "zeros": _set(_choose_anywhere, lambda size, rng: 0.0),
    "minus zero": _set(_choose_anywhere, lambda size, rng: -0.0),
    "nan": _set(_choose_anywhere, lambda size, rng: math.nan),
    "infinity": _set(_choose_anywhere, lambda size, rng: rng.choice((math.inf, -math.inf))),
    "nonfinite first": _set(_choose_first, lambda size, rng: rng.choice((math.nan, math.inf))),
    "nonfinite last": _set(_choose_last, lambda size, rng: rng.choice((math.nan, math.inf))),
}


def fill(kind: str, size: int, dtype: str, rng: random.Random) -> Array:
    """Return `size` elements of a kind. Most kinds have few different values."""
    base = np.random.default_rng(rng.getrandbits(32))
    x = base.choice(np.array([-3.0, -2.0, -1.0, 1.0, 2.0, 3.0]), size)
    return (KINDS[kind](x, rng, base) if size else x).astype(dtype)
