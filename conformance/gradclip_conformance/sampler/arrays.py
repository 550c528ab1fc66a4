"""Make the gradients and the options of a row by recipes (see `gradclip_adapters.recipes`)."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any

import numpy as np

from gradclip_adapters.contract import DTYPES, Array, Gradient
from gradclip_adapters.operations import GRADIENT, PREFIXES, UNIT, Operation
from gradclip_adapters.recipes import WEIGHT, WITH_WEIGHT, Recipe, expand, find_weight

from ..cases.stacking import list_parts
from ..oracle.formats import FORMATS
from ..oracle.question import count_divisor
from .axes import NEAR
from .members import Member, choose_members, choose_number, hash_levels
from .thresholds import (
    EXPONENTS,
    WHOLE,
    choose_bounds,
    choose_threshold,
    estimate_norm,
    find_narrowest,
    parse_norm_order,
)

#: In float16, only a few elements may have squares that overflow: the norm of many would overflow, too.
RARE = 4096

#: The number of threads that make a call at once.
THREADS = 4

#: The small arrays beside the longest one take their digits from this many seeds.
SEEDS = 5

#: Every long array takes its digits from this seed, except the longest one of the row.
LONG_SEED = 6

#: The seed and the exponent of parameters. Their norms are above the least norm of any function.
PARAMETER_SEED, PARAMETER_EXPONENT = 11, -3

#: The places of a tensor belong to examples in runs of this many elements.
RUN = 3


@dataclass(frozen=True)
class RowCall:
    """The gradients and the options of a row's call."""

    gradients: tuple[Gradient, ...]
    options: Mapping[str, Any]


def make_call(operation: str, levels: Mapping[str, str]) -> RowCall:
    """Return the call of a row. `levels` holds the word of a level for each axis."""
    count = choose_number(levels["number"], hash_levels(levels))
    excluded = _choose_indices(levels.get("excluded", "all-in"), count)
    missing = _choose_indices(levels.get("none", "all-there"), count)
    longest = {"long-first": 0, "long-middle": count // 2}.get(levels["place"], count - 1)
    members = choose_members(levels, count, longest, excluded, missing)
    counted = [place for place in range(count) if place not in excluded and place not in missing]
    weighty = next((place for place in [longest, *counted] if place in counted and members[place].is_long), -1)
    dtypes = levels["dtype"].split("+")
    maker = _ArrayMaker(PREFIXES[operation], levels)
    arrays: dict[int, Array] = {}
    for place in [weighty, *range(count)] if weighty >= 0 else range(count):
        if place not in missing and place not in arrays:
            dtype = dtypes[place % len(dtypes)]
            arrays[place] = maker.make(
                members[place], dtype, place, place == longest, place == weighty, place not in excluded
            )
    gradients = [
        Gradient(f"g{place}", arrays.get(place), place not in excluded, choose_layout(member.layout))
        for place, member in enumerate(members)
    ]
    about = PREFIXES[operation]
    if about.sums_examples:
        gradients = _split_examples(gradients, int(levels["examples"][1:]))
    elif about.divides_gradients:
        gradients = [
            unit
            for number, gradient in enumerate(gradients)
            for unit in _split_units(gradient, number, has_parameter=about.is_relative)
        ]
    options = (
        _choose_norm_options(about, levels, gradients, weighty)
        if about.is_by_norm
        else choose_bounds(levels, gradients, weighty)
    )
    options.update(_choose_other_options(levels))
    return RowCall(tuple(gradients), options)


def _choose_norm_options(
    about: Operation, levels: Mapping[str, str], gradients: Sequence[Gradient], weighty: int
) -> dict[str, Any]:
    """Return the options of a clip by norm. `weighty` is the place of the tensor that the threshold is made for."""
    dtype = find_narrowest(gradients)
    if about.sums_examples:
        part, chosen = _choose_example(gradients, levels["layers"])
        return {about.threshold: choose_threshold(levels, chosen, dtype, part)}
    if about.divides_gradients:
        units = [unit for unit in gradients if unit.group == weighty and unit.array is not None]
        chosen = [unit.array for unit in units[:1] if unit.array is not None]
        weights = [unit.parameter for unit in units[:1] if unit.parameter is not None]
        divisor = estimate_norm(weights, about.norm_type) or 1.0
        return {about.threshold: choose_threshold(levels, chosen, dtype, divisor, about.norm_type)}
    alone = gradients[weighty].array if weighty >= 0 else None
    if not about.is_global or levels["relation"] in NEAR:
        chosen = [] if alone is None else [alone]
    else:
        chosen = [gradient.array for gradient in gradients if gradient.array is not None and gradient.need_clip]
    divisor = 1.0 if alone is None else _find_divisor(about, alone.shape)
    options: dict[str, Any] = {about.threshold: choose_threshold(levels, chosen, dtype, divisor)}
    if levels.get("norm", "no-norm") != "no-norm":
        options["norm_type"] = parse_norm_order(levels["norm"])
    return options


def _find_divisor(about: Operation, shape: tuple[int, ...]) -> float:
    return math.sqrt(count_divisor(about.function, math.prod(shape)))


def _choose_other_options(levels: Mapping[str, str]) -> dict[str, Any]:
    """Return the options that do not depend on the arrays."""
    found: dict[str, Any] = {}
    if levels.get("flag", "no-flag") != "no-flag":
        found["error_if_nonfinite"] = levels["flag"] == "strict"
    if levels["repeated"] == "threaded":
        found["threads"] = THREADS
    elif levels["repeated"] != "once":
        found[levels["repeated"]] = True
    if levels.get("flags", "bool") != "bool":
        found["flags"] = levels["flags"].removesuffix("-bool")
    if levels.get("layers", "no-layers") != "no-layers":
        found["layers"] = levels["layers"].removeprefix("layers-").replace("-", " ")
    if levels["threshold"].startswith("scalar-"):
        found["threshold_as"] = levels["threshold"].replace("scalar-", "numpy-float")
    return found


def choose_layout(word: str) -> str:
    """Return the layout of a gradient for a level of the axis `layout`."""
    return {"fortran": "transposed", "gaps": "sliced"}.get(word, word)


def _choose_indices(word: str, count: int) -> set[int]:
    """Return the places of the gradients that a level of the axis `excluded` or `none` selects."""
    every = set(range(count))
    return {
        "all-in": set(),
        "all-there": set(),
        "x-all": every,
        "none-all": every,
        "x-but-one": every - {max(0, count - 2)},
        "x-odd": set(range(1, count, 2)),
        "x-even": set(range(0, count, 2)),
        "x-from-32": {place for place in every if place >= 32},
        "x-from-64": {place for place in every if place >= 64},
    }.get(word) or ({"first": {0}, "middle": {count // 2}, "last": {count - 1}}.get(word.partition("-")[2], set()))


@dataclass
class _ArrayMaker:
    """A maker of the arrays of a row. It must make the longest tensor that counts in the norm first."""

    about: Operation
    levels: Mapping[str, str]
    #: The norm and the size of the longest included tensor.
    norm: float = 0.0
    elements: int = 0
    #: The recipes, by dtype, of tensors other than the longest one.
    recipes: dict[str, Recipe] = field(default_factory=dict)

    def __post_init__(self) -> None:
        levels = self.levels
        near = levels["relation"] in NEAR
        #: Whether the norm must be exact. Then only one tensor may have elements other than zero, because a sum over
        #: several tensors would be rounded.
        self.is_exact = self.about.is_global and near
        ordinary = levels["magnitude"] == "ordinary" and levels["data"] != "edges"
        whole = levels["threshold"] == "integer" and "float16" in levels["dtype"].split("+")
        #: Whether all tensors get similar norms, so that the effect of each tensor shows.
        self.is_balanced = self.about.is_by_norm and ordinary and not whole and not near
        #: Whether each tensor has a norm of its own.
        self.has_own_norms = self.about.group in (GRADIENT, UNIT)
        self.order = parse_norm_order(levels.get("norm", "no-norm"), self.about.norm_type)

    def make(
        self, member: Member, dtype: str, place: int, is_longest: bool, is_weighty: bool, is_included: bool
    ) -> Array:
        """Return the array of one tensor."""
        shape = member.shape
        # An excluded tensor keeps its elements, because an exact norm shows whether they are counted by mistake.
        is_zero = self.is_exact and is_included and not is_weighty
        period = math.prod(shape[1:]) if member.layout == "broadcast" and shape else 0
        if not (is_longest or member.is_long):
            recipe = self._make_recipe_of_other(member, dtype, place, period)
            return _make_small(Recipe("zero", period=period) if is_zero else recipe, dtype, shape)
        recipe = replace(self._make_recipe(dtype, is_longest), seed=0 if is_longest else LONG_SEED, period=period)
        if is_zero:
            recipe = Recipe("zero", period=period)
        array = Array(dtype, shape, expand(recipe, dtype, shape), recipe)
        if is_weighty:
            self.elements = math.prod(shape)
            if self.is_balanced and self.has_own_norms:
                self.norm = estimate_norm([array], self.order) / _find_divisor(self.about, shape)
        return array

    def _make_recipe(self, dtype: str, is_longest: bool) -> Recipe:
        kind, magnitude = self.levels["data"], self.levels["magnitude"]
        if kind.startswith(("nan", "infinity")) and not is_longest:
            kind = "numbers"
        exponent, every, rest = EXPONENTS[dtype][magnitude], 0, 0
        if self.levels["threshold"] == "integer":
            exponent = WHOLE
        if (dtype, magnitude) == ("float16", "squares-over"):
            if is_longest:
                every, rest = RARE, EXPONENTS[dtype]["ordinary"]
            else:
                exponent = EXPONENTS[dtype]["ordinary"]
        if self.is_balanced and kind in WITH_WEIGHT:
            kind = f"weighty-{kind}"
        return Recipe(kind, 0, exponent, 0, every, rest)

    def _make_recipe_of_other(self, member: Member, dtype: str, place: int, period: int) -> Recipe:
        """Return the recipe of a short tensor, with larger elements, so that leaving it out changes the result."""
        seed = 1 + place % SEEDS
        if dtype not in self.recipes:
            self.recipes[dtype] = self._make_recipe(dtype, is_longest=False)
        like = self.recipes[dtype]
        recipe = Recipe(like.kind, seed, like.exponent, period, like.every, like.rest)
        shift = self._shift(recipe, member, dtype) if self.is_balanced else 0
        if not shift:
            return recipe
        bias = FORMATS[dtype].maximum_exponent
        exponent = max(1 - bias, min(like.exponent + shift, bias - 1 - (1 + WEIGHT)))
        return Recipe(like.kind, seed, exponent, period, like.every, like.rest)

    def _shift(self, recipe: Recipe, member: Member, dtype: str) -> int:
        """Return the number to add to the exponent of the elements.

        If each tensor has a norm of its own, the tensor gets about the same norm as the longest one. Otherwise it gets
        enough weight in the common norm.
        """
        if self.has_own_norms:
            own = _compute_norm_alone(recipe, dtype, member.shape, self.order)
            own /= _find_divisor(self.about, member.shape)
            return round(math.log2(self.norm / own)) if own and self.norm else 0
        if not member.is_watched:
            return 0
        own_weight = find_weight(math.prod(member.shape)) if recipe.kind.startswith("weighty-") else 0
        return max(0, find_weight(self.elements) - own_weight)


@lru_cache(maxsize=1 << 12)
def _make_small(recipe: Recipe, dtype: str, shape: tuple[int, ...]) -> Array:
    """Return a small array. The cache keeps it, because many rows share a few small arrays."""
    return Array(dtype, shape, expand(recipe, dtype, shape), recipe)


@lru_cache(maxsize=1 << 12)
def _compute_norm_alone(recipe: Recipe, dtype: str, shape: tuple[int, ...], order: float) -> float:
    return estimate_norm([_make_small(recipe, dtype, shape)], order)


# The gradients of examples, and units with parameters.


def _split_examples(gradients: Sequence[Gradient], count: int) -> list[Gradient]:
    """Return the gradients of each example. Each element of a tensor belongs to one example, and is zero in others."""
    return [
        gradient.copy_with(array=_take_share(gradient.array, number, count), group=number)
        for number in range(count)
        for gradient in gradients
    ]


def _take_share(array: Array | None, number: int, count: int) -> Array | None:
    """Return an array with the elements of one example, and zeros elsewhere."""
    if array is None:
        return None
    bits = array.bits().ravel()
    # The first example has the first elements of every tensor, so that no example is empty in long tensors only.
    owners = np.arange(bits.size) // RUN % count
    share = np.where(owners == number, bits, 0).astype(DTYPES[array.dtype])
    return Array(array.dtype, array.shape, share.tobytes())


def _choose_example(gradients: Sequence[Gradient], layers: str) -> tuple[float, list[Array]]:
    """Return the arrays that share the largest finite norm, and the part of the threshold that this norm has."""
    existing = [(one.group, one.array) for one in gradients if one.array is not None]
    numbers = range(1 + max((group for group, _ in existing), default=0))
    examples = [[array for group, array in existing if group == number] for number in numbers]
    if layers == "no-layers":
        return 1.0, max(examples, key=lambda arrays: estimate_norm(arrays, 2.0))
    alone = [array for _, array in existing]
    if not alone:
        return 1.0, []
    largest = max(alone, key=lambda array: estimate_norm([array], 2.0))
    if layers == "layers-equal":
        return 1 / math.sqrt(len(examples[0])), [largest]
    sizes = sum(math.prod(array.shape) for array in examples[0])
    return math.sqrt(math.prod(largest.shape) / max(sizes, 1)) or 1.0, [largest]


def _split_units(gradient: Gradient, number: int, *, has_parameter: bool) -> Iterator[Gradient]:
    """Yield the units of a tensor, each with its parameter. The first axis counts the units; a vector is one unit."""
    array = gradient.array
    if array is None:
        weight = Array("float32", (1,), expand(Recipe("numbers", PARAMETER_SEED), "float32", (1,)))
        yield gradient.copy_with(parameter=weight if has_parameter else None, group=number)
        return
    recipe = Recipe("numbers", PARAMETER_SEED + number, PARAMETER_EXPONENT)
    weight = Array(array.dtype, array.shape, expand(recipe, array.dtype, array.shape))
    is_vector = len(array.shape) < 2
    units, weights = ([array], [weight]) if is_vector else (list_parts(array), list_parts(weight))
    # Without its height, the only row of a matrix would be a vector.
    height = 1 if len(array.shape) == 2 and len(units) == 1 else None
    for unit, parameter in zip(units, weights, strict=True):
        yield gradient.copy_with(
            array=unit, parameter=parameter if has_parameter else None, group=number, height=height
        )
