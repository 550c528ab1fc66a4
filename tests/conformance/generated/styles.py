"""Define ten common styles of clip functions. A style says in which order and grouping it measures and writes elements.

Every style passes the value of each step to a *hook*, and continues with the value that the hook returns. The hook of a
right function returns the same value.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from .arithmetic import PowerSum
from .facts import Array

__all__ = ["STYLES", "Change", "Hook", "Part", "Style", "Sums"]

#: A function that takes the name of a step, the place of the gradient (None for the whole call), the value of the step,
#: and further details. It returns the value with which the style continues.
Hook = Callable[..., Any]
#: The place of a gradient, and its elements as a one-dimensional array.
Part = tuple[int, Array]
#: A function that clips elements.
Change = Callable[[Array], Array]
Sums = type[PowerSum]

#: The largest number of elements in a bucket, in a chunk, and in a vector.
BUCKET, CHUNK, LANES = 4096, 65_536, 8


def find_largest(rows: Sequence[Array]) -> float:
    """Return the largest magnitude, or NaN if an element is NaN."""
    return float(np.max([np.max(np.abs(row), initial=0.0) for row in rows], initial=0.0))


def announce(hook: Hook, i: int, result: Array, given: Array) -> Array:
    """Pass the result for one gradient to the hook, and return what the hook returns."""
    return np.asarray(hook("result", i, result, given))


class Style:
    """Loop over the gradients."""

    name = "loop"

    def measure(self, parts: Sequence[Part], p: float, sums: Sums, hook: Hook) -> float:
        """Return the norm over all elements."""
        total = sums(p, find_largest([row for _, row in parts]))
        for _, row in parts:
            total.add(row)
        return total.compute_norm()

    def write(self, parts: Sequence[Part], change: Change, hook: Hook) -> list[Array]:
        """Return the clipped elements of each gradient."""
        return [announce(hook, i, change(row), row) for i, row in parts]


class Foreach(Style):
    """Compute the norms of all gradients first, and the norm of these norms."""

    name = "foreach"

    def measure(self, parts: Sequence[Part], p: float, sums: Sums, hook: Hook) -> float:
        norms = [measure_one(row, p, sums) for _, row in parts]
        norms = hook("norms", None, norms)
        return norms[0] if len(norms) == 1 else measure_one(np.array(norms, np.float64), p, sums)

    def write(self, parts: Sequence[Part], change: Change, hook: Hook) -> list[Array]:
        changed = list(map(change, [row for _, row in parts]))
        return [announce(hook, i, new, row) for (i, row), new in zip(parts, changed, strict=True)]


def measure_one(row: Array, p: float, sums: Sums) -> float:
    """Return the norm of one row."""
    total = sums(p, find_largest([row]))
    total.add(row)
    return total.compute_norm()


class Buckets(Style):
    """Join gradients of one dtype in buckets of limited size."""

    name = "buckets"

    def fill(self, parts: Sequence[Part]) -> Iterator[list[Part]]:
        """Yield the gradients of each bucket."""
        for dtype in dict.fromkeys(row.dtype for _, row in parts):
            bucket: list[Part] = []
            for part in parts:
                if part[1].dtype == dtype:
                    bucket.append(part)
                if sum(row.size for _, row in bucket) >= BUCKET:
                    yield bucket
                    bucket = []
            if bucket:
                yield bucket

    def measure(self, parts: Sequence[Part], p: float, sums: Sums, hook: Hook) -> float:
        total = sums(p, find_largest([row for _, row in parts]))
        for bucket in self.fill(parts):
            total.add(np.concatenate([row for _, row in bucket]))
        return total.compute_norm()

    def write(self, parts: Sequence[Part], change: Change, hook: Hook) -> list[Array]:
        done: dict[int, Array] = {}
        for bucket in self.fill(parts):
            changed = change(np.concatenate([row for _, row in bucket]))
            ends = itertools.accumulate(row.size for _, row in bucket)
            for (i, row), end in zip(bucket, ends, strict=True):
                # Copy, so that no two results share memory.
                done[i] = announce(hook, i, changed[end - row.size : end].copy(), row)
        return [done[i] for i, _ in parts]


class Chunked(Style):
    """Cut each gradient into chunks."""

    name = "chunked"
    length = CHUNK

    def cut(self, row: Array) -> list[Array]:
        """Return the chunks of a row, the last of which may be shorter."""
        return [row[start : start + self.length] for start in range(0, row.size, self.length)]

    def measure(self, parts: Sequence[Part], p: float, sums: Sums, hook: Hook) -> float:
        pieces = [piece for i, row in parts for piece in hook("pieces", i, self.cut(row))]
        total = sums(p, find_largest(pieces))
        for piece in pieces:
            total.add(piece)
        return total.compute_norm()

    def write(self, parts: Sequence[Part], change: Change, hook: Hook) -> list[Array]:
        results = []
        for i, row in parts:
            out = np.empty_like(row)
            for start, piece in zip(range(0, row.size, self.length), self.cut(row), strict=True):
                out[start : start + self.length] = change(piece)
            results.append(announce(hook, i, out, row))
        return results


class PerDtype(Style):
    """Process the gradients dtype by dtype."""

    name = "per-dtype"

    def group(self, parts: Sequence[Part]) -> list[list[Part]]:
        """Return the gradients by dtype, the narrowest first."""
        dtypes = sorted({row.dtype for _, row in parts}, key=lambda dtype: dtype.itemsize)
        return [[part for part in parts if part[1].dtype == dtype] for dtype in dtypes]

    def measure(self, parts: Sequence[Part], p: float, sums: Sums, hook: Hook) -> float:
        total = sums(p, find_largest([row for _, row in parts]))
        for group in self.group(parts):
            of_group = sums(p, total.largest)
            for _, row in group:
                of_group.add(row)
            total.take(of_group)
        return total.compute_norm()

    def write(self, parts: Sequence[Part], change: Change, hook: Hook) -> list[Array]:
        done = {i: announce(hook, i, change(row), row) for group in self.group(parts) for i, row in group}
        return [done[i] for i, _ in parts]


class TwoPass(Style):
    """Read everything twice, in whole vectors and a tail: for the largest magnitude, and for the sum."""

    name = "two-pass"

    def split(self, row: Array) -> tuple[Array, Array]:
        """Return the elements that fill whole vectors, and the rest."""
        whole = row.size - row.size % LANES
        return row[:whole].reshape(-1, LANES), row[whole:]

    def measure(self, parts: Sequence[Part], p: float, sums: Sums, hook: Hook) -> float:
        split = [piece for _, row in parts for piece in self.split(row)]
        total = sums(p, find_largest(split))
        for piece in split:
            total.add(piece)
        return total.compute_norm()

    def write(self, parts: Sequence[Part], change: Change, hook: Hook) -> list[Array]:
        results = []
        for i, row in parts:
            head, tail = self.split(row)
            results.append(announce(hook, i, np.concatenate([change(head).reshape(-1), change(tail)]), row))
        return results


class Scaled(Style):
    """Measure each gradient in its own scale, and convert the norms to one scale at the end."""

    name = "scaled"

    def measure(self, parts: Sequence[Part], p: float, sums: Sums, hook: Hook) -> float:
        largest = find_largest([row for _, row in parts])
        if not math.isfinite(largest) or largest == 0 or p == math.inf:
            return largest
        exponent = math.frexp(largest)[1]
        total = np.longdouble(0)
        for _, row in parts:
            unit = np.abs(np.ldexp(row.astype(np.longdouble), -exponent))
            total += np.sum(unit * unit if p == 2 else unit ** np.longdouble(p))
        root = np.sqrt(total) if p == 2 else total ** (1 / np.longdouble(p))
        with np.errstate(over="ignore"):
            return float(np.ldexp(root, exponent))


class InPlace(Style):
    """Write into existing arrays."""

    name = "in-place"

    def write(self, parts: Sequence[Part], change: Change, hook: Hook) -> list[Array]:
        results = []
        for i, row in parts:
            out = np.zeros_like(row)
            np.copyto(out, change(row))
            results.append(announce(hook, i, out, row))
        return results


class Policy(Style):
    """Collect the gradients in an object, one after another, and ask it for the norm at the end."""

    name = "policy"

    class Collected:
        """The gradients that were seen so far."""

        def __init__(self, p: float, sums: Sums) -> None:
            self.p, self.sums, self.rows = p, sums, list[Array]()

        def see(self, row: Array) -> None:
            """Take one gradient."""
            self.rows.append(row)

        @property
        def norm(self) -> float:
            """The norm of all gradients that were seen."""
            total = self.sums(self.p, find_largest(self.rows))
            for row in self.rows:
                total.add(row)
            return total.compute_norm()

    def measure(self, parts: Sequence[Part], p: float, sums: Sums, hook: Hook) -> float:
        collected = self.Collected(p, sums)
        for _, row in parts:
            collected.see(row)
        return collected.norm


def apply_to_every_gradient(one: Callable[[Array, Change], Array]) -> Callable[..., list[Array]]:
    """Convert a function of one array into a function of a list."""

    @functools.wraps(one)
    def apply_to_list(parts: Sequence[Part], change: Change, hook: Hook) -> list[Array]:
        return [announce(hook, i, one(row, change), row) for i, row in parts]

    return apply_to_list


@apply_to_every_gradient
def change_elements(row: Array, change: Change) -> Array:
    """Return the clipped elements of one gradient."""
    return change(row)


class Decorated(Style):
    """Clip a list with a decorated function that clips one array."""

    name = "decorated"

    def write(self, parts: Sequence[Part], change: Change, hook: Hook) -> list[Array]:
        return change_elements(parts, change, hook)


STYLES = {
    style.name: style
    for style in (
        Style(),
        Foreach(),
        Buckets(),
        Chunked(),
        PerDtype(),
        TwoPass(),
        Scaled(),
        InPlace(),
        Policy(),
        Decorated(),
    )
}
