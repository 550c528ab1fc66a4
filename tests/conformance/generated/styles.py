"""Define five styles of clip functions. A style says in which order and grouping it measures and writes elements.

Every style passes the value of each step to a *hook*, and continues with the value that the hook returns. The hook of a
right function returns the same value.
"""

from __future__ import annotations

import itertools
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


STYLES = {
    style.name: style
    for style in (
        Style(),
        Foreach(),
        Buckets(),
        Chunked(),
        TwoPass(),
    )
}
