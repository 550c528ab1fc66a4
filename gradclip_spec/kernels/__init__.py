"""Compute sums, maxima and products over the memory of many arrays, with numba's compiled loops if they are faster.

The caller passes a `Memory`, which locates the arrays. The choice of a compiled loop depends only on the number of
arrays and elements, never on earlier calls, so equal calls have equal results.
"""

import ctypes
import functools
import importlib.util
import itertools
import math
import operator
import sys
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import numpy as np

from gradclip_spec.kernels import plain, threads
from gradclip_spec.kernels.plain import Factor

__all__ = ["Factor", "Memory", "find_addresses", "find_largest", "scale", "sum_powers"]

Array = Any
Integers = np.ndarray[Any, np.dtype[np.int64]]

#: With at least this number of elements, compiled loops are faster, however few the arrays are.
MANY_ELEMENTS = 1 << 14
#: With fewer elements than this, starting threads takes longer than the threads save.
LARGE = 1 << 21


class Memory(Protocol):
    """The memory of the arrays of one library."""

    #: The last arrays that were cut into chunks, and the result, because a clip in place needs it twice.
    last_cut: tuple[Sequence[Array], list["_Chunks"], list[int]]
    #: The names of the arrays' dtypes.
    dtypes: Mapping[Any, str]
    #: With at least this number of arrays, compiled loops are faster, however few their elements are.
    many_arrays: int = 32

    def measure(self, arrays: Sequence[Array]) -> list[int]:
        """Return the number of elements of each array."""

    def view(self, arrays: Sequence[Array]) -> list[plain.View]:
        """Return the arrays in the form that the module `plain` takes."""

    def locate(self, arrays: Sequence[Array]) -> list[int]:
        """Return the address of each array, or 0 if it does not lie in one piece."""

    def spread(self, work: Callable[[int, int], None], sizes: Any) -> None:
        """Call `work(first, last)` for ranges of chunks of these sizes, each on its own thread."""
        threads.spread(work, sizes, threads.count_available())


@functools.cache
def load_compiled() -> Any:
    """Return the module of compiled loops, or None. Warn if numba is installed but fails."""
    try:
        if importlib.util.find_spec("numba") is None:
            return None
        from gradclip_spec.kernels import compiled

        # Loops that cannot be compiled for this machine raise here.
        nothing = np.zeros(0, np.int64)
        compiled.find_largest(np.float16, nothing, nothing, nothing, 0, 0)
    except Exception as error:  # noqa: BLE001 - numba raises errors of many kinds, and the plain loops serve instead
        message = f"clips are slower, because numba does not work here ({type(error).__name__}: {error}); update numba"
        warnings.warn(message, RuntimeWarning, stacklevel=2)
        return None
    return compiled


def find_addresses(arrays: Sequence[plain.View]) -> list[int]:
    """Return the addresses of the first elements of NumPy arrays.

    NumPy takes two microseconds for each address. In CPython, the address is in the array's object, after the header of
    all objects (`PyArrayObject` of NumPy's C API).
    """
    header, read = object.__basicsize__, ctypes.c_size_t.from_address
    if _can_read_addresses():
        return [read(id(x) + header).value for x in arrays]
    return [x.__array_interface__["data"][0] for x in arrays]


@functools.cache
def _can_read_addresses() -> bool:
    probe = np.arange(7)[3:]
    place, address = id(probe) + object.__basicsize__, probe.__array_interface__["data"][0]
    return sys.implementation.name == "cpython" and bool(ctypes.c_size_t.from_address(place).value == address)


class _Chunks:
    """Chunks of contiguous arrays of one dtype: their addresses, their sizes and their owners.

    `owners` are the indices of the arrays among all arrays, whose addresses and sizes are given.
    """

    def __init__(self, name: str, addresses: Integers, sizes: Integers, owners: Integers) -> None:
        self.kind = load_compiled().KINDS[name]
        self.owners, self.sizes = owners, sizes[owners]
        self.offsets: Integers | int = 0
        lengths = self.sizes.tolist()
        if max(lengths) > plain.CHUNK:
            pieces = [
                (owner, skipped, min(size - skipped, plain.CHUNK))
                for owner, size in zip(owners.tolist(), lengths, strict=True)
                for skipped in range(0, size, plain.CHUNK)
            ]
            self.owners, skipped, self.sizes = np.asarray(list(zip(*pieces, strict=True)), np.int64)
            self.offsets = skipped * np.dtype(self.kind).itemsize
        self.starts = self.find_starts(addresses)
        self.large = self.sizes.sum() >= LARGE

    def find_starts(self, addresses: Integers) -> Integers:
        """Return the addresses of the same chunks of other arrays, which have the same sizes."""
        return addresses[self.owners] + self.offsets

    def run(self, loop: str, memory: Memory | None, *arguments: Any) -> None:
        """Run a loop over all chunks, on the threads that serve this memory, or on this thread alone."""
        work = functools.partial(getattr(load_compiled(), loop), self.kind, self.starts, self.sizes, *arguments)
        if memory is not None and self.large:
            memory.spread(work, self.sizes)
        else:
            work(0, len(self.sizes))

    def may_overlap(self) -> bool:
        """Return whether two threads might write to the same element."""
        order = np.argsort(self.starts)
        ends = self.starts + self.sizes * np.dtype(self.kind).itemsize
        return bool(np.any(ends[order][:-1] > self.starts[order][1:]))


def _cut(memory: Memory, arrays: Sequence[Array]) -> tuple[list[_Chunks], list[int]]:
    """Return the chunks for compiled loops, and the indices of the other arrays that are not empty."""
    last, chunks, rest = memory.last_cut
    if last and len(last) == len(arrays) and all(map(operator.is_, last, arrays)):
        return chunks, rest
    sizes = memory.measure(arrays)
    if (len(sizes) < memory.many_arrays and sum(sizes) < MANY_ELEMENTS) or load_compiled() is None:
        memory.last_cut = tuple(arrays), [], [index for index, size in enumerate(sizes) if size]
        return memory.last_cut[1:]
    addresses = memory.locate(arrays)
    places, lengths = np.asarray([addresses, sizes], np.int64)
    whole, rest = np.arange(len(sizes)), []
    if not (all(addresses) and all(sizes)):
        whole = np.flatnonzero((places != 0) & (lengths > 0))
        rest = np.flatnonzero((places == 0) & (lengths > 0)).tolist()
    chunks = []
    for dtype, name in memory.dtypes.items():
        same = whole if len(memory.dtypes) == 1 else whole[[arrays[index].dtype == dtype for index in whole.tolist()]]
        if same.size:
            chunks.append(_Chunks(name, places, lengths, same))
    memory.last_cut = tuple(arrays), chunks, rest
    return chunks, rest


def sum_powers(
    memory: Memory, arrays: Sequence[Array], power: int, compensated: bool, factor: float = 1.0, each: bool = False
) -> list[list[float]]:
    """Return numbers that add up to the sum of all squares (`power` 2) or magnitudes (1), for `each` array or for all.

    If `compensated`, sum the elements times `factor`, a power of two, with a relative error of `2**-60`. Otherwise the
    elements are narrower than float64, and the relative error is `2**-37`.
    """
    compiled, rest = _cut(memory, arrays)
    parts: list[list[float]] = [[] for _ in arrays] if each else [[]]
    for chunks in compiled:
        sums = np.zeros((2, chunks.sizes.size))
        if compensated:
            chunks.run("sum_compensated", memory, power, factor, *sums)
        else:
            chunks.run("sum_plainly", memory, power, sums[0])
        if each:
            for owner, pair in zip(chunks.owners.tolist(), sums.T.tolist(), strict=True):
                parts[owner] += pair
        else:
            parts[0] += sums[: 1 + compensated].ravel().tolist()
    for place, some in [(i, [i]) for i in rest] if each else [(0, rest)] if rest else []:
        parts[place] += plain.sum_powers(memory.view([arrays[index] for index in some]), power, compensated, factor)
    return parts


def find_largest(memory: Memory, arrays: Sequence[Array]) -> float:
    """Return the largest magnitude of all elements, 0 if there is none, NaN if one is NaN."""
    compiled, rest = _cut(memory, arrays)
    found = [0.0, *(plain.find_largest(x) for x in memory.view([arrays[index] for index in rest]))]
    for chunks in compiled:
        results = np.empty(chunks.sizes.size, np.int64)
        chunks.run("find_largest", memory, results)
        found += results.view(np.float64).tolist()
    return math.nan if any(map(math.isnan, found)) else max(found)


def scale(memory: Memory, sources: Sequence[Array], targets: Sequence[Array], factors: Factor | list[Factor]) -> None:
    """Multiply each array by its factor, and write the product into its target, which may be the array itself.

    `factors` is one factor for all arrays, or a list.

    With compiled loops, the error of an element is at most 0.51 ulp. Without them, it is at most 0.51 ulp for few
    elements of narrower arrays, and at most 1.5 ulp otherwise.
    """
    compiled, rest = _cut(memory, sources)
    if compiled and targets is not sources:
        places = np.asarray(memory.locate(targets), np.int64)
        if not all(places[chunks.owners].all() for chunks in compiled):
            # The target of a contiguous array has another layout.
            compiled, rest = [], list(range(len(sources)))
    for chunks in compiled:
        table = np.empty((len(sources), 3))
        table[:] = factors
        outs = chunks.starts if targets is sources else chunks.find_starts(places)
        one_thread = targets is sources and chunks.large and chunks.may_overlap()
        chunks.run("scale", None if one_thread else memory, outs, table, chunks.owners)
    if rest:
        precise = sum(memory.measure(sources)) < MANY_ELEMENTS
        views = memory.view([sources[index] for index in rest])
        results = views if targets is sources else memory.view([targets[index] for index in rest])
        chosen = [factors[index] for index in rest] if isinstance(factors, list) else itertools.repeat(factors)
        plain.scale(views, results, chosen, precise)
