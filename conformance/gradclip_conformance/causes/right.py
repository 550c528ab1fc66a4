"""Recognise right results: as they are, in another order, of other units, or of another threshold."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from gradclip_adapters.arrays import convert_thresholds
from gradclip_adapters.contract import Array
from gradclip_adapters.mesh import parse_mesh

from ..cases.model import Case
from ..cases.stacking import list_tensors, regroup_units
from ..oracle.formats import read_float64_values
from .facts import Kind, Seen
from .forms import explain_form
from .meaning import explain_excluded
from .values import is_right_value


def is_right(seen: Seen) -> bool:
    """Return whether the results of a call are right."""
    if explain_form(seen) is not None or explain_excluded(seen, by_bits=True) is not None:
        return False
    return all(group.is_right for group in seen.groups) if seen.operation.is_by_norm else is_right_value(seen)


def is_in_other_order(seen: Seen) -> bool:
    """Return whether the results are right, but in another order."""
    return any(map(is_right, _restore_orders(seen)))


def has_moved_elements(seen: Seen) -> bool:
    """Return whether the results hold the right numbers, but at other places. A clip keeps the order of elements."""
    if seen.operation.sums_examples:
        return False
    if seen.operation.is_by_norm:
        wrong = {tensor.kind for group in seen.groups if not group.is_right for tensor in group.tensors}
        # Elements that stayed, or became zero or NaN, did not move.
        if wrong and wrong <= {Kind.SAME, Kind.ZERO, Kind.NAN}:
            return False
    pairs = zip(seen.case.gradients, seen.results, strict=True)
    restored = [
        got if one.array is None or got is None or got.shape != one.array.shape else _sort_like(got, one.array)
        for one, got in pairs
    ]
    return is_right(replace(seen, results=restored))


def _sort_like(array: Array, other: Array) -> Array:
    """Return the elements of an array in the order of those of another."""
    bits, order = array.bits().ravel(), np.argsort(read_float64_values(other), kind="stable")
    bits[order] = bits[np.argsort(read_float64_values(array), kind="stable")]
    return replace(array, data=bits.tobytes())


def _restore_orders(seen: Seen) -> Iterator[Seen]:
    """Yield the results in the order of the gradients, for each order in which a function may have returned them."""
    count = len(seen.results)
    if count != len(seen.case.gradients) or count < 2:
        return
    tried = {tuple(range(count))}
    for order in _list_orders(seen.case):
        if tuple(order) in tried:
            continue
        tried.add(tuple(order))
        restored: list[Array | None] = [None] * count
        for place, index in enumerate(order):
            restored[index] = seen.results[place]
        yield replace(seen, results=restored)


def _list_orders(case: Case) -> Iterator[Sequence[int]]:
    """Yield likely orders of the results. An order lists, for each result, the index of its gradient."""
    places = range(len(case.gradients))
    yield places[::-1]
    yield [*places[-1:], *places[:-1]]
    yield [*places[1:], *places[:1]]
    yield sorted(places, key=lambda i: case.gradients[i].array is None)
    yield sorted(places, key=lambda i: not case.gradients[i].need_clip)
    arrays = [one.array for one in case.gradients]
    yield from _sort_both_ways([0 if array is None else len(array.data) for array in arrays])
    # A clip by value limits the magnitudes by which a function may sort its results.
    most = float(case.options.get("max", math.inf))
    limits = [most if one.need_clip else math.inf for one in case.gradients]
    pairs = zip(arrays, limits, strict=True)
    yield from _sort_both_ways([0.0 if array is None else min(_find_largest(array), limit) for array, limit in pairs])


def _sort_both_ways(sizes: Sequence[float]) -> Iterator[Sequence[int]]:
    places = range(len(sizes))
    yield sorted(places, key=lambda i: sizes[i])
    yield sorted(places, key=lambda i: -sizes[i])


def _find_largest(array: Array) -> float:
    return float(np.abs(read_float64_values(array)).max(initial=0.0))


def has_other_units(seen: Seen) -> bool:
    """Return whether each tensor is right, or would be right if it had other units."""
    case = seen.case
    numbers = {id(gradient): number for number, gradient in enumerate(case.gradients)}
    wrong = {tensor.index for group in seen.groups if not group.is_right for tensor in group.tensors}
    for parts in list_tensors(case.gradients):
        places = [numbers[id(part)] for part in parts]
        got = [result for place in places if (result := seen.results[place]) is not None]
        others = (Seen(replace(case, gradients=units), values) for units, values in regroup_units(parts, got))
        if not (wrong.isdisjoint(places) if len(got) == len(parts) else not got) and not any(map(is_right, others)):
            return False
    return True


def are_addends_clipped(seen: Seen) -> bool:
    """Return whether a sum of equal addends is clipped as a clip of each addend does."""
    if "mesh" not in seen.case.options:
        return False
    world = math.prod(parse_mesh(seen.case.options["mesh"]).values())
    options = convert_thresholds(seen.case.options, lambda value: world * value)
    return is_right(replace(seen, case=replace(seen.case, options=options)))
