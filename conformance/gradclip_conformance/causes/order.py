"""Recognise results that are right, but come back in another order."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

import numpy as np

from gradclip_adapters.contract import Array

from ..cases.model import Case
from ..oracle.formats import read_float64_values
from .facts import Seen

__all__ = ["restore_orders"]


def restore_orders(seen: Seen) -> Iterator[Seen]:
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
    measures: tuple[Callable[[Array], float], ...] = (_count, _find_largest)
    for measure in measures:
        # A clip by value limits the magnitudes by which a function may sort its results.
        most = float(case.options.get("max", math.inf)) if measure is _find_largest else math.inf
        sizes = [
            0.0 if one.array is None else min(measure(one.array), most if one.need_clip else math.inf)
            for one in case.gradients
        ]
        yield sorted(places, key=lambda i: sizes[i])
        yield sorted(places, key=lambda i: -sizes[i])


def _count(array: Array) -> float:
    return float(len(array.data))


def _find_largest(array: Array) -> float:
    return float(np.abs(read_float64_values(array)).max(initial=0.0))
