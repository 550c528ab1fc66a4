"""Clip all arrays on a GPU in three passes, whatever their number: sum squares, take roots, scale.

Requirements of this module and of its two subclasses, `triton_loops` for torch and `cuda_loops` for CuPy:

1. A program of a kernel works on one *chunk*: 32,768 elements of an array, or the rest of it. A table on the device
   says where each chunk is. It depends only on sizes and dtypes, and is kept for the next call.
2. The arrays' addresses are sent without a wait for the device. No value is read, so a CUDA graph can record all of it.
3. Squares are summed in float64, in an order that depends only on the sizes. Products are computed in float64. They are
   rounded once, apart from 16-bit numbers, which are rounded to float32 on the way: their error is below 0.5001 ulp.
4. The formulas are those of `backends.base.Backend`. The scaling pass computes the coefficient from the norm, and does
   nothing to arrays in place if it is 1.
"""

import operator
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

Array = Any
#: The number of elements in a chunk.
CHUNK = 1 << 15
#: The number of tables that are kept. A training loop needs one or two, or one for each size of its shards.
TABLES = 64
#: The sizes in bytes of the elements that the kernels take.
WIDTHS = {"float16": 2, "bfloat16": 2, "float32": 4}


class Table(NamedTuple):
    """The chunks of some arrays. Chunks of one dtype follow each other, and so do the chunks of one array."""

    #: Six rows in one array of int32. Four rows have an entry for each chunk: the index of its array, its number within
    #: that array, its length, and its group. Two rows have an entry for each group: its first chunk, and the chunk
    #: after its last one.
    rows: Array
    #: The number of chunks.
    chunks: int
    #: The number of groups. Each group has a norm.
    groups: int
    #: For each dtype, its name, its first chunk and the number of its chunks.
    ranges: tuple[tuple[str, int, int], ...]


def make_table(sizes: Sequence[int], names: Sequence[str], each: bool) -> Table:
    """Return the chunks of arrays of these sizes and dtypes, with a group for `each` array, or one for all."""
    lengths = np.asarray(sizes, np.int64)
    counts = -(-lengths // CHUNK)
    order = np.concatenate([np.flatnonzero(np.asarray(names) == name) for name in dict.fromkeys(names)])
    owners = np.repeat(order, counts[order])
    ends = np.cumsum(counts[order])
    numbers = np.arange(len(owners)) - np.repeat(ends - counts[order], counts[order])
    if each:
        groups, firsts, lasts = owners, np.empty_like(lengths), np.empty_like(lengths)
        firsts[order], lasts[order] = ends - counts[order], ends
    else:
        groups, firsts, lasts = np.zeros_like(owners), np.array([0]), np.array([len(owners)])
    columns = (owners, numbers, np.minimum(lengths[owners] - numbers * CHUNK, CHUNK), groups, firsts, lasts)
    ranges, first = [], 0
    for name in dict.fromkeys(names):
        count = int(counts[np.asarray(names) == name].sum())
        ranges += [(name, first, count)] if count else []
        first += count
    return Table(np.concatenate(columns).astype(np.int32), len(owners), len(firsts), tuple(ranges))


class Upload(NamedTuple):
    """The addresses of arrays on their device."""

    arrays: Sequence[Array]
    device: Any
    #: The numbers of elements, and the addresses on the host.
    sizes: tuple[int, ...]
    starts: np.ndarray[Any, Any]
    #: An array of addresses on the device. For a single array, its address.
    addresses: Any
    #: Whether every address is a multiple of 16.
    aligned: bool

    def holds(self, arrays: Sequence[Array]) -> bool:
        """Return whether these are the arrays."""
        return len(arrays) == len(self.arrays) and all(map(operator.is_, arrays, self.arrays))


class Norms:
    """Norms that the kernels compute. `high`, `low` and `exponent` make them a simple `Norm` of the general path."""

    low, exponent = None, None

    def __init__(self, norms: Array, totals: Array, upload: Upload) -> None:
        #: The norms in float64.
        self.high = norms
        #: The norms rounded to float32.
        self.totals = totals
        self.upload = upload


class Coefficients(NamedTuple):
    """Coefficients `limit / (norm + eps)`, or 1 where `norm + eps` is at most the limit. One for all, or one for each.

    Without a limit, the numbers in `norms` are the coefficients.
    """

    norms: Array
    limit: float | None = None
    eps: float = 0.0
    #: The addresses that were sent when the norms were computed.
    upload: Upload | None = None


class FusedLoops:
    """The passes over the arrays of one library. A subclass says how memory is taken and a kernel is launched."""

    def __init__(self) -> None:
        self._tables: dict[Any, Table] = {}
        #: The tables that CUDA graphs read whenever they run.
        self._recorded: list[Table] = []

    def list_sizes(self, arrays: Sequence[Array]) -> list[int]:
        """Return the number of elements of each array."""
        raise NotImplementedError

    def list_addresses(self, arrays: Sequence[Array]) -> list[int]:
        """Return the address of each array. All arrays lie in one piece."""
        raise NotImplementedError

    def find_device(self, array: Array) -> Any:
        """Return the device of an array, which can be hashed."""
        raise NotImplementedError

    def allocate(self, device: Any, shape: tuple[int, ...], dtype: str) -> Array:
        """Return a new array on a device, with any contents."""
        raise NotImplementedError

    def send(self, device: Any, numbers: np.ndarray[Any, Any]) -> Array:
        """Return integers as an array on a device, without a wait."""
        raise NotImplementedError

    def is_recording(self, device: Any) -> bool:
        """Return whether a CUDA graph records what is launched now. The graph owns the memory that is taken now."""
        raise NotImplementedError

    def launch(self, kernel: str, device: Any, programs: int, dtype: str | None, arguments: Sequence[Any]) -> None:
        """Launch a kernel on the current stream of a device. `dtype` is that of the arrays that it works on, if any."""
        raise NotImplementedError

    def measure(self, arrays: Sequence[Array], names: Sequence[str], each: bool) -> Norms:
        """Return the Euclidean norm of `each` array, or of all. At least one array is not empty."""
        upload = self.upload(arrays)
        table, device = self._find_table(upload, names, each), upload.device
        shape = (table.groups,) if each else ()
        norms, totals = self.allocate(device, shape, "float64"), self.allocate(device, shape, "float32")
        # The norm of a single chunk needs no second kernel.
        finish = table.chunks == table.groups == 1
        sums = norms if finish else self.allocate(device, (table.chunks,), "float64")
        for name, first, count in table.ranges:
            numbers = (table.rows, sums, norms, totals, first, table.chunks, finish)
            self.launch("sum_squares", device, count, name, (upload.addresses, *numbers, upload.aligned))
        if not finish:
            self.launch("take_roots", device, table.groups, None, (table.rows, sums, norms, totals, table.chunks))
        return Norms(norms, totals, upload)

    def scale(
        self,
        sources: Sequence[Array],
        targets: Sequence[Array],
        names: Sequence[str],
        coefficients: Coefficients,
        each: bool,
    ) -> None:
        """Write arrays times their coefficient into targets, which may be the arrays."""
        upload = coefficients.upload
        if upload is None or not upload.holds(sources):
            upload = self.upload(sources)
        table, target = self._find_table(upload, names, each), self._upload_targets(upload, targets)
        aligned = upload.aligned and target.aligned
        computes, limit = coefficients.limit is not None, coefficients.limit or 0.0
        for name, first, count in table.ranges:
            numbers = (table.rows, coefficients.norms, limit, coefficients.eps, first, table.chunks)
            arguments = (upload.addresses, target.addresses, *numbers, computes, targets is sources, aligned)
            self.launch("scale", upload.device, count, name, arguments)

    def clamp(
        self,
        sources: Sequence[Array],
        targets: Sequence[Array],
        names: Sequence[str],
        bounds: Mapping[str, tuple[float, float]],
    ) -> None:
        """Write arrays, clipped to the bounds of their dtype, into targets, which may be the arrays."""
        upload = self.upload(sources)
        table, target = self._find_table(upload, names, False), self._upload_targets(upload, targets)
        aligned = upload.aligned and target.aligned
        for name, first, count in table.ranges:
            arguments = (upload.addresses, target.addresses, table.rows, *bounds[name], first, table.chunks, aligned)
            self.launch("clamp", upload.device, count, name, arguments)

    def upload(self, arrays: Sequence[Array]) -> Upload:
        """Send the addresses of arrays to their device."""
        device, sizes = self.find_device(arrays[0]), tuple(self.list_sizes(arrays))
        starts = np.array(self.list_addresses(arrays), np.int64)
        addresses = self.send(device, starts) if len(starts) > 1 else int(starts[0])
        return Upload(arrays, device, sizes, starts, addresses, not int(np.bitwise_or.reduce(starts)) % 16)

    def _upload_targets(self, upload: Upload, targets: Sequence[Array]) -> Upload:
        return upload if targets is upload.arrays or upload.holds(targets) else self.upload(targets)

    def may_overlap(self, upload: Upload, names: Sequence[str]) -> bool:
        """Return whether two programs might write to the same element."""
        if len(names) < 2:
            return False
        # An empty array overlaps nothing.
        sizes = np.array(upload.sizes, np.int64)
        starts, widths = upload.starts[sizes > 0], np.array([WIDTHS[name] for name in names])
        ends = starts + (sizes * widths)[sizes > 0]
        order = np.argsort(starts)
        return bool(np.any(ends[order][:-1] > starts[order][1:]))

    def _find_table(self, upload: Upload, names: Sequence[str], each: bool) -> Table:
        device, sizes = upload.device, upload.sizes
        key = device, sizes, tuple(names), each
        table = self._tables.get(key)
        if table is None:
            made = make_table(sizes, names, each)
            table = made._replace(rows=self.send(device, made.rows))
        if self.is_recording(device):
            self._recorded.append(table)
        elif key not in self._tables:
            # Several threads may do this at once, so do not expect a table to be there still.
            for oldest in list(self._tables)[: max(0, len(self._tables) - TABLES + 1)]:
                self._tables.pop(oldest, None)
            self._tables[key] = table
        return table
