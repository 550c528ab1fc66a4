"""Sums, maxima and products over the memory of many arrays, by compiled loops where numba is installed and gains.

Whoever calls passes its arrays and a `Memory` that tells where they lie. Whether a loop is compiled depends on the
number of arrays and elements alone, never on earlier calls, so that equal calls have equal results.
"""

import functools
import importlib
import math
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np

from gradclip_spec.kernels import plain, threads

__all__ = [
    "Factor",
    "Memory",
    "find_largest",
    "scale",
    "sum_other_powers",
    "sum_powers",
    "sum_powers_together",
]

Array = Any

#: From so many elements, or arrays, on the compiled loops gain.
MANY_ELEMENTS = 1 << 14
MANY_ARRAYS = 32
#: Elements of a piece that one thread multiplies without compiled loops.
_PIECE = 1 << 20


class Memory(Protocol):
    """Where arrays of one library lie."""

    def name_dtype(self, x: Array) -> str:
        """Return the name of the dtype of an array."""

    def count(self, x: Array) -> int:
        """Return the number of elements."""

    def is_dense(self, x: Array) -> bool:
        """Return whether the elements lie in one piece, each once and in the machine's own byte order."""

    def locate(self, x: Array) -> int:
        """Return the address of a dense array."""

    def view(self, x: Array) -> plain.View:
        """Return the array as `plain` takes it."""

    def count_threads(self) -> int:
        """Return how many threads may work."""


class Factor(NamedTuple):
    """The coefficient `(high + low) * power`, `power` a power of two."""

    high: float
    low: float = 0.0
    power: float = 1.0


@functools.cache
def load_compiled() -> Any:
    """Return the module of compiled loops, or None: where numba is missing in silence, where it fails with a warning."""
    try:
        if importlib.util.find_spec("numba") is None:
            return None
        from gradclip_spec.kernels import compiled

        # What cannot be compiled for this machine fails here.
        _find_largest_in(compiled, _Chunks("float16", [0], [0]), 1)
    except Exception as error:
        message = (
            f"gradclip_spec clips without compiled loops, more slowly, because numba does not work here "
            f"({type(error).__name__}: {error}); install a newer numba, or none"
        )
        warnings.warn(message, RuntimeWarning, stacklevel=2)
        return None
    return compiled


class _Chunks:
    """Chunks of dense arrays of one dtype: where they start, how long they are, and whose they are."""

    def __init__(self, name: str, addresses: Sequence[int], sizes: Sequence[int]) -> None:
        self.name, self.bytes = name, 2 if name.endswith("16") else int(name[-2:]) // 8
        self.starts, self.sizes = np.asarray(addresses, np.int64), np.asarray(sizes, np.int64)
        self.owners = np.arange(self.sizes.size)
        if self.sizes.max(initial=0) > plain.CHUNK:
            counts = np.maximum(-(-self.sizes // plain.CHUNK), 1)
            self.owners = np.repeat(self.owners, counts)
            within = (np.arange(self.owners.size) - np.repeat(np.cumsum(counts) - counts, counts)) * plain.CHUNK
            self.starts = self.starts[self.owners] + within * self.bytes
            self.sizes = np.minimum(self.sizes[self.owners] - within, plain.CHUNK)

    def overlap(self) -> bool:
        """Return whether two threads might write to one element."""
        order = np.argsort(self.starts)
        return bool(np.any((self.starts + self.sizes * self.bytes)[order][:-1] > self.starts[order][1:]))


def _share_out(memory: Memory, arrays: Sequence[Array]) -> Iterator[tuple[str, list[int], Any]]:
    """Yield dtypes, the indices of the arrays that have them, and the compiled loops if these arrays are for them."""
    sizes = [memory.count(x) for x in arrays]
    groups: dict[tuple[str, bool], list[int]] = {}
    many = len(arrays) >= MANY_ARRAYS or sum(sizes) >= MANY_ELEMENTS
    loops = load_compiled() if many else None
    for index, x in enumerate(arrays):
        if sizes[index]:
            groups.setdefault((memory.name_dtype(x), loops is not None and memory.is_dense(x)), []).append(index)
    for (name, is_compiled), indices in groups.items():
        yield name, indices, loops if is_compiled else None


def _cut(memory: Memory, name: str, arrays: Sequence[Array]) -> _Chunks:
    return _Chunks(name, [memory.locate(x) for x in arrays], [memory.count(x) for x in arrays])


def sum_powers(
    memory: Memory, arrays: Sequence[Array], power: int, exact: bool, factor: float = 1.0
) -> list[list[float]]:
    """Return numbers for each array that add up to the sum of its squares (`power` 2) or magnitudes (1).

    If `exact`, of the elements times `factor`, a power of two, and to `2**-60` of the sum; else to `2**-37`, of what is
    narrower than float64.
    """
    parts: list[list[float]] = [[] for _ in arrays]
    for name, indices, loops in _share_out(memory, arrays):
        some = [arrays[index] for index in indices]
        if loops is None:
            for index, x in zip(indices, some, strict=True):
                for piece in plain.split(memory.view(x)):
                    wide = plain.widen(piece)
                    parts[index] += (
                        plain.sum_exactly(wide * factor, power) if exact else [plain.sum_plainly(wide, power)]
                    )
            continue
        chunks = _cut(memory, name, some)
        sums, rests = _sum_in(loops, chunks, power, exact, factor, memory.count_threads())
        for owner, number, rest in zip(chunks.owners.tolist(), sums.tolist(), rests.tolist(), strict=True):
            parts[indices[owner]] += (number, rest) if exact else (number,)
    return parts


def sum_powers_together(
    memory: Memory, arrays: Sequence[Array], power: int, exact: bool, factor: float = 1.0
) -> list[float]:
    """Return numbers that add up to the sum over all arrays; see `sum_powers`."""
    parts: list[float] = []
    for name, indices, loops in _share_out(memory, arrays):
        some = [arrays[index] for index in indices]
        if loops is None:
            for wide in plain.widen_together([memory.view(x) for x in some]):
                parts += plain.sum_exactly(wide * factor, power) if exact else [plain.sum_plainly(wide, power)]
            continue
        sums, rests = _sum_in(loops, _cut(memory, name, some), power, exact, factor, memory.count_threads())
        parts += sums.tolist() + rests.tolist() if exact else sums.tolist()
    return parts


def sum_other_powers(memory: Memory, arrays: Sequence[Array], power: float, largest: float) -> list[float]:
    """Return numbers that add up to the sum of `(|x| / largest) ** power`; see `plain.sum_other_powers`."""
    wide = plain.widen_together([memory.view(x) for x in arrays if memory.count(x)])
    return [number for part in wide for number in plain.sum_other_powers(part, power, largest)]


def find_largest(memory: Memory, arrays: Sequence[Array]) -> float:
    """Return the largest magnitude of all elements, 0 if there is none, NaN if one is NaN."""
    found = [0.0]
    for name, indices, loops in _share_out(memory, arrays):
        some = [arrays[index] for index in indices]
        if loops is None:
            found += [plain.find_largest(memory.view(x)) for x in some]
        else:
            found += _find_largest_in(loops, _cut(memory, name, some), memory.count_threads()).tolist()
    return math.nan if any(map(math.isnan, found)) else max(found)


def scale(
    memory: Memory, sources: Sequence[Array], targets: Sequence[Array], factors: Sequence[Factor]
) -> None:
    """Write each array times its factor into another, which may be itself.

    Compiled, elements are off by at most 0.51 units in the last place. Else those of narrower arrays by 0.51 if there
    are few elements, and by 1.5 if not; those of float64 by 1.5.
    """
    few = sum(memory.count(x) for x in sources) < MANY_ELEMENTS
    for name, indices, loops in _share_out(memory, sources):
        some, outs = [sources[index] for index in indices], [targets[index] for index in indices]
        if loops is None or not all(map(memory.is_dense, outs)):
            pieces = [
                (piece, out, factors[index])
                for index, x, y in zip(indices, some, outs, strict=True)
                for piece, out in _cut_pieces(memory.view(x), memory.view(y))
            ]
            _scale_pieces(pieces, few)
            continue
        chunks = _cut(memory, name, some)
        others = chunks if some[0] is outs[0] else _cut(memory, name, outs)
        highs, lows, powers = np.asarray([factors[index] for index in indices]).T.copy()
        _scale_in(loops, chunks, others, (highs, lows, powers), memory.count_threads())


def _cut_pieces(source: plain.View, target: plain.View) -> Iterator[tuple[plain.View, plain.View]]:
    if source.size <= _PIECE or not (source.flags.forc and target.flags.forc):
        return iter([(source, target)])
    return zip(plain.split(source, _PIECE), plain.split(target, _PIECE), strict=True)


def _scale_pieces(pieces: Sequence[tuple[plain.View, plain.View, Factor]], precise: bool) -> None:
    def work(first: int, last: int) -> None:
        # Backwards, because what was read last is still in the cache.
        for source, target, factor in reversed(pieces[first:last]):
            plain.scale(source, target, *factor, precise)

    sizes = [target.size for _, target, _ in pieces]
    in_place = any(source is target for source, target, _ in pieces) or len(pieces) == 1
    work(0, len(sizes)) if in_place else threads.spread(work, sizes, threads.count_available())


def _sum_in(
    loops: Any, chunks: _Chunks, power: int, exact: bool, factor: float, count: int
) -> tuple[plain.View, plain.View]:
    kind, sums, rests = loops.KINDS[chunks.name], np.empty(chunks.sizes.size), np.zeros(chunks.sizes.size)

    def work(first: int, last: int) -> None:
        if exact:
            loops.sum_exactly(kind, chunks.starts, chunks.sizes, power, factor, sums, rests, first, last)
        else:
            loops.sum_plainly(kind, chunks.starts, chunks.sizes, power, sums, first, last)

    threads.spread(work, chunks.sizes, count)
    return sums, rests


def _find_largest_in(loops: Any, chunks: _Chunks, count: int) -> plain.View:
    results = np.empty(chunks.sizes.size)

    def work(first: int, last: int) -> None:
        loops.find_largest(loops.KINDS[chunks.name], chunks.starts, chunks.sizes, results, first, last)

    threads.spread(work, chunks.sizes, count)
    return results


def _scale_in(loops: Any, chunks: _Chunks, others: _Chunks, factors: tuple[Any, Any, Any], count: int) -> None:
    kind = loops.KINDS[chunks.name]

    def work(first: int, last: int) -> None:
        if others is chunks:
            loops.scale(kind, chunks.starts, chunks.sizes, *factors, chunks.owners, first, last)
        else:
            loops.copy_scaled(kind, chunks.starts, others.starts, chunks.sizes, *factors, chunks.owners, first, last)

    threads.spread(work, chunks.sizes, 1 if others.overlap() else count)
