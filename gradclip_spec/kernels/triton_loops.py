# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-calls, allow-untyped-decorators
# ruff: noqa: PLR0913, PLR0917 - a kernel takes whatever differs between its launches
"""Define the passes of `fused` over torch tensors, as kernels of Triton, which torch's builds for CUDA install.

The kernels also run on the CPU, in Triton's interpreter: set TRITON_INTERPRET=1 before Triton is imported.
"""

import contextlib
import struct
import threading
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
import triton
import triton.language as tl

from gradclip_spec.kernels.fused import CHUNK, FusedLoops

Tensor = Any
#: The number of elements that a program works on at once: two loads of 16 bytes for each thread of 16-bit elements.
BLOCK = 1 << 12
#: The number of warps of a program. Each has 32 threads.
WARPS = 8
ELEMENTS = {"float16": tl.float16, "bfloat16": tl.bfloat16, "float32": tl.float32}
DTYPES = {"float64": torch.float64, "float32": torch.float32}
#: The bytes that are reserved for the integers that CUDA graphs send whenever they run.
RESERVED = 1 << 20

#: Kernels may read only such constants of a module.
CHUNK_SIZE = tl.constexpr(CHUNK)
#: The arguments that differ between calls. Triton would compile a kernel again for special values of them.
VARYING = {"addresses", "sources", "targets", "first", "count", "limit", "eps", "lower", "upper"}


def _compile(function: Callable[..., Any]) -> Any:
    names = function.__code__.co_varnames[: function.__code__.co_argcount]
    return triton.jit(function, do_not_specialize=[name for name in names if name in VARYING])


# In the kernels below, `rows` is `fused.Table.rows`. A single array has its address in place of an array of addresses.
# Thresholds come as the bits of their float64, because Triton would round a float to float32.


@triton.jit
def _find_start(addresses, rows, chunk, count, single: tl.constexpr, element: tl.constexpr, aligned: tl.constexpr):
    if single:
        address = addresses.to(tl.int64)
    else:
        address = tl.load(addresses + tl.load(rows + chunk))
    start = address.to(tl.pointer_type(element)) + tl.load(rows + count + chunk).to(tl.int64) * CHUNK_SIZE
    if aligned:
        start = tl.multiple_of(start, 16)
    return start


@triton.jit
def _to_float64(bits):
    return bits.to(tl.int64).to(tl.float64, bitcast=True)


@triton.jit
def _store_root(x, norm, total):
    root = tl.sqrt(x)
    tl.store(norm, root)
    tl.store(total, root.to(tl.float32))


@_compile
def _sum_squares(
    addresses,
    rows,
    sums,
    norms,
    totals,
    first,
    count,
    finish: tl.constexpr,
    aligned: tl.constexpr,
    single: tl.constexpr,
    element: tl.constexpr,
    block: tl.constexpr,
):
    chunk = first + tl.program_id(0)
    start = _find_start(addresses, rows, chunk, count, single, element, aligned)
    length = tl.load(rows + 2 * count + chunk)
    total = tl.zeros((block,), tl.float64)
    index = tl.arange(0, block)
    rest = length % block
    # Without a mask, a thread loads 16 bytes at once.
    for begin in range(0, length - rest, block):
        x = tl.load(start + begin + index).to(tl.float64)
        total += x * x
    x = tl.load(start + (length - rest) + index, mask=index < rest, other=0.0).to(tl.float64)
    total += x * x
    if finish:
        _store_root(tl.sum(total, axis=0), norms, totals)
    else:
        tl.store(sums + chunk, tl.sum(total, axis=0))


@_compile
def _take_roots(rows, sums, norms, totals, count, block: tl.constexpr):
    group = tl.program_id(0)
    first = tl.load(rows + 4 * count + group)
    last = tl.load(rows + 4 * count + tl.num_programs(0) + group)
    total = tl.zeros((block,), tl.float64)
    for begin in range(first, last, block):
        index = begin + tl.arange(0, block)
        total += tl.load(sums + index, mask=index < last, other=0.0)
    _store_root(tl.sum(total, axis=0), norms + group, totals + group)


@triton.jit
def _multiply(x, coefficient, element: tl.constexpr):
    # Triton converts float64 to bfloat16 only by way of float32.
    return (x.to(tl.float64) * coefficient).to(tl.float32).to(element)


@triton.jit
def _limit(x, least, most, element: tl.constexpr):
    # A comparison with NaN is false, so NaN stays. So does a zero whose sign differs from that of a zero bound.
    wide = x.to(tl.float32)
    return tl.where(wide < least, least.to(element), tl.where(wide > most, most.to(element), x))


@_compile
def _scale(
    sources,
    targets,
    rows,
    norms,
    limit,
    eps,
    first,
    count,
    computes: tl.constexpr,
    inplace: tl.constexpr,
    aligned: tl.constexpr,
    single: tl.constexpr,
    element: tl.constexpr,
    block: tl.constexpr,
):
    chunk = first + tl.program_id(0)
    length = tl.load(rows + 2 * count + chunk)
    coefficient = tl.load(norms + tl.load(rows + 3 * count + chunk))
    if computes:
        divisor, threshold = coefficient + _to_float64(eps), _to_float64(limit)
        within = divisor <= threshold
        coefficient = tl.where(within, 1.0, threshold) / tl.where(within, 1.0, divisor)
    if inplace:
        length = tl.where(coefficient == 1.0, 0, length)
    source = _find_start(sources, rows, chunk, count, single, element, aligned)
    target = _find_start(targets, rows, chunk, count, single, element, aligned)
    index = tl.arange(0, block)
    rest = length % block
    for begin in range(0, length - rest, block):
        x = tl.load(source + begin + index)
        tl.store(target + begin + index, _multiply(x, coefficient, element))
    mask = index < rest
    x = tl.load(source + (length - rest) + index, mask=mask, other=0.0)
    tl.store(target + (length - rest) + index, _multiply(x, coefficient, element), mask=mask)


@_compile
def _clamp(
    sources,
    targets,
    rows,
    lower,
    upper,
    first,
    count,
    aligned: tl.constexpr,
    single: tl.constexpr,
    element: tl.constexpr,
    block: tl.constexpr,
):
    chunk = first + tl.program_id(0)
    length = tl.load(rows + 2 * count + chunk)
    least, most = _to_float64(lower).to(tl.float32), _to_float64(upper).to(tl.float32)
    source = _find_start(sources, rows, chunk, count, single, element, aligned)
    target = _find_start(targets, rows, chunk, count, single, element, aligned)
    index = tl.arange(0, block)
    rest = length % block
    for begin in range(0, length - rest, block):
        x = tl.load(source + begin + index)
        tl.store(target + begin + index, _limit(x, least, most, element))
    mask = index < rest
    x = tl.load(source + (length - rest) + index, mask=mask, other=0.0)
    tl.store(target + (length - rest) + index, _limit(x, least, most, element), mask=mask)


KERNELS = {"sum_squares": _sum_squares, "take_roots": _take_roots, "scale": _scale, "clamp": _clamp}
#: The positions of the thresholds among the arguments of a kernel.
THRESHOLDS = {"scale": (4, 5), "clamp": (3, 4)}


class TritonLoops(FusedLoops):
    """The passes over torch tensors on a GPU, or on the CPU in Triton's interpreter."""

    def __init__(self) -> None:
        super().__init__()
        #: Pinned memory for the integers that graphs send. It is never given back, because a graph may run again.
        self._reserves: list[Tensor] = []
        #: The part of the last reserve that is still free.
        self._free: Tensor = torch.empty(0, dtype=torch.uint8)
        self._lock = threading.Lock()

    def list_sizes(self, arrays: Sequence[Tensor]) -> list[int]:
        return list(map(torch.Tensor.numel, arrays))

    def list_addresses(self, arrays: Sequence[Tensor]) -> list[int]:
        return list(map(torch.Tensor.data_ptr, arrays))

    def find_device(self, array: Tensor) -> Any:
        return array.device

    def allocate(self, device: Any, shape: tuple[int, ...], dtype: str) -> Tensor:
        return torch.empty(shape, dtype=DTYPES[dtype], device=device)

    def is_recording(self, device: Any) -> bool:
        return device.type == "cuda" and bool(torch.cuda.is_current_stream_capturing())

    def can_record(self, count: int, elements: int) -> bool:
        """Return whether a graph may record the passes over some arrays: enough memory must have been reserved."""
        chunks = count + elements // CHUNK
        # Two lists of addresses and a table for each of two calls.
        needed = 2 * (2 * 8 * count + 4 * (4 * chunks + 2 * count) + 64)
        return bool(self._free.numel() >= needed)

    def send(self, device: Any, numbers: np.ndarray[Any, Any]) -> Tensor:
        """Return integers as a tensor on a device, by way of pinned memory."""
        host = torch.from_numpy(numbers)
        if device.type == "cpu":
            return host
        if self.is_recording(device):
            return self._reserve(host).to(device, non_blocking=True)
        with self._lock:
            if self._free.numel() < RESERVED // 2:
                self._free = torch.empty(RESERVED, dtype=torch.uint8, pin_memory=True)
                self._reserves.append(self._free)
        # torch keeps the pinned memory until the copy is over.
        return host.pin_memory().to(device, non_blocking=True)

    def _reserve(self, host: Tensor) -> Tensor:
        """Return a copy in reserved memory, which a graph reads whenever it runs."""
        size = host.numel() * host.element_size()
        with self._lock:
            place, self._free = self._free[:size], self._free[-(-size // 16) * 16 :]
        copy = place.view(host.dtype)
        copy.copy_(host)
        return copy

    def launch(self, kernel: str, device: Any, programs: int, dtype: str | None, arguments: Sequence[Any]) -> None:
        given = list(arguments)
        for place in THRESHOLDS.get(kernel, ()):
            (given[place],) = struct.unpack("<q", struct.pack("<d", given[place]))
        if dtype is not None:
            given += [isinstance(given[0], int), ELEMENTS[dtype]]
        elsewhere = device.type == "cuda" and device.index != torch.cuda.current_device()
        with torch.cuda.device(device) if elsewhere else contextlib.nullcontext():
            KERNELS[kernel][programs,](*given, BLOCK, num_warps=WARPS, enable_fp_fusion=True)
