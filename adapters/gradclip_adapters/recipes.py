"""Expand recipes of arrays. The suite and a host make the same bits from a few numbers instead of sending the bits.

A recipe says how the bits of each element are made: sign, exponent and digits (the mantissa). It needs integer
arithmetic only, so it gives the same bits under every Python, NumPy and processor. The digits come from a hash of the
element's place.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Callable, Sequence

import numpy as np

#: The version of the recipes. The suite sends whole arrays to a host that reports another version.
VERSION = 2

#: For each dtype: how many bits an element has, and how many bits its mantissa has.
WIDTHS = {"float16": (16, 10), "bfloat16": (16, 7), "float32": (32, 23), "float64": (64, 52)}

#: Odd constants that spread the bits of a product (the golden ratio; Steele, Lea and Flood 2014).
GOLDEN, MIXED = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xBF58476D1CE4E5B9)

ONE = np.uint64(1)


@dataclass(frozen=True)
class Recipe:
    """The numbers from which an array is made."""

    #: One of :data:`KINDS`.
    kind: str
    #: Arrays of other seeds have other digits.
    seed: int = 0
    #: Most elements lie between `2**exponent` and `2**(exponent + 2)`.
    exponent: int = 0
    #: The number of elements after which the elements repeat. It is 0 if they do not.
    period: int = 0
    #: If above 0, only the elements at multiples of this number have `exponent`. The others have `rest`.
    every: int = 0
    rest: int = 0


@dataclass(frozen=True)
class _Maker:
    """A recipe, a number of elements, and the widths of the elements and of their mantissas in bits."""

    recipe: Recipe
    count: int
    width: int
    digits: int

    @property
    def bias(self) -> int:
        """The exponent field of the number 1.0."""
        return (1 << (self.width - self.digits - 2)) - 1

    @property
    def mask(self) -> int:
        """The mask of the mantissa."""
        return (1 << self.digits) - 1

    @property
    def sign(self) -> np.uint64:
        """The bit of the sign."""
        return np.uint64(1 << (self.width - 1))

    def list_places(self) -> np.ndarray[Any, Any]:
        """Return the place of each element."""
        return np.arange(self.count, dtype=np.uint64)

    def hash_places(self, places: Sequence[int] | None = None) -> np.ndarray[Any, Any]:
        """Return 64 bits that look random, for each element or for the elements at some places."""
        bits = self.list_places() if places is None else np.array(places, dtype=np.uint64)
        bits += np.uint64(self.recipe.seed + 1)
        bits *= GOLDEN
        bits ^= bits >> np.uint64(30)
        bits *= MIXED
        bits ^= bits >> np.uint64(27)
        return bits

    def make_power(self, exponent: int) -> np.uint64:
        """Return the bits of `2**exponent`."""
        return np.uint64((self.bias + exponent) << self.digits)

    def set_exponents(self, digits: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        """Give these digits the exponents of the recipe. Return the numbers, above zero, in the same array."""
        recipe = self.recipe
        digits &= np.uint64(self.mask)
        if not recipe.every:
            digits += self.make_power(recipe.exponent)
            return digits
        digits += self.make_power(recipe.rest)
        digits[:: recipe.every] += np.uint64((recipe.exponent - recipe.rest) << self.digits)
        return digits

    def make_unsigned(self, hashed: np.ndarray[Any, Any] | None = None) -> np.ndarray[Any, Any]:
        """Return numbers above zero that use every digit, with two neighbouring exponents."""
        hashed = self.hash_places() if hashed is None else hashed
        found = hashed >> np.uint64(9)
        found |= ONE
        found = self.set_exponents(found)
        found += _move_bit(hashed, 8, self.digits)
        return found

    def make_numbers(self) -> np.ndarray[Any, Any]:
        """Return numbers of both signs that use every digit."""
        hashed = self.hash_places()
        found = self.make_unsigned(hashed)
        found |= _move_bit(hashed, 7, self.width - 1)
        return found


def _move_bit(bits: np.ndarray[Any, Any], place: int, to: int) -> np.ndarray[Any, Any]:
    """Return the bit at one place of each number, moved to another place."""
    found = bits >> np.uint64(place)
    found &= ONE
    found <<= np.uint64(to)
    return found


def _make_constant(maker: _Maker) -> np.ndarray[Any, Any]:
    first = np.uint64(maker.recipe.seed + 1) * np.uint64(0x9E3779B9) >> np.uint64(3) | ONE
    return maker.set_exponents(np.full(maker.count, first, dtype=np.uint64))


def _make_alternating(maker: _Maker) -> np.ndarray[Any, Any]:
    found = _make_constant(maker)
    found |= (maker.list_places() & ONE) << np.uint64(maker.width - 1)
    return found


def _make_one_large(maker: _Maker) -> np.ndarray[Any, Any]:
    """Return small numbers, and a number 64 times as large in the last quarter."""
    found = maker.make_numbers()
    found[maker.count - 1 - maker.count // 5 : maker.count - maker.count // 5] += np.uint64(6 << maker.digits)
    return found


def _make_equal_ends(maker: _Maker) -> np.ndarray[Any, Any]:
    found = maker.make_numbers()
    found[-1:] = found[:1]
    return found


def _make_sorted(maker: _Maker) -> np.ndarray[Any, Any]:
    return maker.set_exponents(maker.list_places() * np.uint64(maker.mask // max(1, maker.count)))


def _make_subnormals(maker: _Maker) -> np.ndarray[Any, Any]:
    """Return numbers. Every second one is subnormal."""
    found = maker.make_numbers()
    found[1::2] &= np.uint64(maker.mask) | maker.sign
    return found


def _make_zeros(maker: _Maker) -> np.ndarray[Any, Any]:
    """Return numbers. Two of three are zeros, of either sign."""
    found = maker.make_numbers()
    found[1::3] = 0
    found[2::3] = maker.sign
    return found


def _make_edges(maker: _Maker) -> np.ndarray[Any, Any]:
    """Return zeros, except a power of two in the two first and two last places (below 4 elements: only in the last)."""
    found = np.zeros(maker.count, dtype=np.uint64)
    if maker.count >= 4:
        found[[0, 1, -2, -1]] = maker.make_power(maker.recipe.exponent)
    else:
        found[-1:] = maker.make_power(maker.recipe.exponent + 1)
    return found


def _choose_special(place: str, digits: int) -> Callable[[_Maker], np.ndarray[Any, Any]]:
    """Return a maker of numbers with one NaN (`digits` 1) or infinity (0) at a place."""

    def make(maker: _Maker) -> np.ndarray[Any, Any]:
        found = maker.make_numbers()
        if maker.count:
            where = {"first": 0, "middle": maker.count // 2, "last": maker.count - 1}[place]
            infinity = maker.make_power(maker.bias + 1)
            found[where] = infinity | np.uint64(digits << (maker.digits - 1))
        return found

    return make


#: Arrays of the kinds "weighty-..." have a few large elements. WEIGHT is the largest exponent that is added to these
#: elements, and FEW is the smallest size of an array that has them.
WEIGHT, FEW = 8, 16


def find_weight(count: int) -> int:
    """Return the exponent that is added to the large elements of a "weighty" array of `count` elements."""
    return 0 if count < FEW else min(WEIGHT, (count.bit_length() + 1) // 2)


def _add_weight(make: Callable[[_Maker], np.ndarray[Any, Any]]) -> Callable[[_Maker], np.ndarray[Any, Any]]:
    """Return a maker that makes the elements at the ends and in the middle large, so that a norm shows their loss.

    Up to about 2**16 elements, the square of each is about as large as the sum of the squares of all others.
    """

    def make_weighty(maker: _Maker) -> np.ndarray[Any, Any]:
        found = make(maker)
        count = maker.count
        if count < FEW:
            return found
        places = [0, 1, count // 2, count - 2, count - 1]
        digits = maker.hash_places(places) >> np.uint64(9) & np.uint64(maker.mask) | ONE
        found[places] = (
            found[places] & maker.sign | digits | maker.make_power(maker.recipe.exponent + find_weight(count))
        )
        return found

    return make_weighty


KINDS: dict[str, Callable[[_Maker], np.ndarray[Any, Any]]] = {
    "numbers": _Maker.make_numbers,
    "constant": _make_constant,
    "negative": lambda maker: maker.make_unsigned() | maker.sign,
    "alternating": _make_alternating,
    "one-large": _make_one_large,
    "ends-equal": _make_equal_ends,
    "sorted": _make_sorted,
    "subnormals": _make_subnormals,
    "zeros": _make_zeros,
    "edges": _make_edges,
    "zero": lambda maker: np.zeros(maker.count, dtype=np.uint64),
    "nan-first": _choose_special("first", 1),
    "nan-middle": _choose_special("middle", 1),
    "nan-last": _choose_special("last", 1),
    "infinity-first": _choose_special("first", 0),
    "infinity-middle": _choose_special("middle", 0),
    "infinity-last": _choose_special("last", 0),
}


#: The kinds of arrays whose ends and middle may have more weight than the rest.
WITH_WEIGHT = ("numbers", "negative", "alternating", "subnormals", "zeros")
KINDS.update({"weighty-" + kind: _add_weight(KINDS[kind]) for kind in WITH_WEIGHT})

#: Arrays of at most this many elements are cached, because many lists hold the same small arrays. The last few arrays
#: of up to LONG elements are cached, too, because the next call often has the same gradients, for another entry point.
SMALL, LONG = 1100, 1 << 18


def expand(recipe: Recipe, dtype: str, shape: tuple[int, ...]) -> bytes:
    """Return the little-endian bytes of the array that a recipe makes.

    Raises
    ------
    ValueError
        If there is no such kind of recipe, or the dtype does not hold its numbers.
    """
    count = 1
    for length in shape:
        count *= length
    expand_it = _expand_small if count <= SMALL else _expand_long if count <= LONG + SMALL else _expand
    return expand_it(recipe, dtype, count)


def _expand(recipe: Recipe, dtype: str, count: int) -> bytes:
    width, digits = WIDTHS[dtype]
    maker = _Maker(recipe, min(count, recipe.period) if recipe.period else count, width, digits)
    if recipe.kind not in KINDS:
        message = f"there is no recipe {recipe.kind!r:.40}; there are {', '.join(KINDS)}"
        raise ValueError(message)
    binades = 7 if recipe.kind == "one-large" else 1 + WEIGHT if recipe.kind.startswith("weighty-") else 1
    if not all(0 < maker.bias + exponent <= 2 * maker.bias - binades for exponent in (recipe.exponent, recipe.rest)):
        message = f"{dtype} does not hold the numbers of the recipe {recipe!r}"
        raise ValueError(message)
    bits = KINDS[recipe.kind](maker).astype(f"<u{width // 8}")
    return (np.resize(bits, count) if recipe.period else bits).tobytes()


_expand_small = lru_cache(maxsize=1 << 11)(_expand)
_expand_long = lru_cache(maxsize=12)(_expand)


def encode_recipe(recipe: Recipe) -> list[Any]:
    """Return a recipe as a list, in the order of its fields."""
    return [recipe.kind, recipe.seed, recipe.exponent, recipe.period, recipe.every, recipe.rest]


def decode_recipe(items: Sequence[Any]) -> Recipe:
    """Undo :func:`encode_recipe`.

    Raises
    ------
    ValueError
        If the list does not describe a recipe.
    """
    kind, *numbers = items
    if not isinstance(kind, str) or len(numbers) != 5 or not all(type(number) is int for number in numbers):
        message = f"{items!r:.80} is not a recipe"
        raise ValueError(message)
    return Recipe(kind, *numbers)
