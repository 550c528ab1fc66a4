"""Sums of the squares of torch tensors on the CPU, read where they lie."""

import functools
import sys
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from gradclip_spec._numpy import sum_of_large
from gradclip_spec._rows import exact_sum

__all__ = ["sum_of_squares"]

Tensor = Any
Array = np.ndarray[Any, Any]

#: Elements of a tensor that is copied to lie beside others: to look at many takes longer than to copy these.
_SMALL = 1 << 14
#: Elements of float16 and bfloat16 that are converted at a time, so that both forms stay in the cache.
_CONVERTED = 1 << 18
#: Elements that torch converts in one thread.
_ALONE = 1 << 15


def sum_of_squares(tensors: Sequence[Tensor]) -> float:
    """The sum of the squares of all elements, to a small part of float32's rounding error."""
    return sum(
        _sum_of_squares_alike([tensor for tensor in tensors if tensor.dtype == dtype], dtype)
        for dtype in {tensor.dtype for tensor in tensors}
    )


def _sum_of_squares_alike(tensors: Sequence[Tensor], dtype: Any) -> float:
    import torch

    sizes = [tensor.numel() for tensor in tensors]
    small = [tensor for tensor, size in zip(tensors, sizes, strict=True) if size <= _SMALL]
    large = [tensor for tensor, size in zip(tensors, sizes, strict=True) if size > _SMALL]
    total = exact_sum(small, [size for size in sizes if size <= _SMALL], _widened_tensors)
    if dtype == torch.float32:
        return total + sum_of_large([tensor.numpy() for tensor in large], _sum_rows, piece=sys.maxsize)
    wide = torch.empty(_CONVERTED)

    def converted(bits: Array) -> Tensor:
        return wide[: bits.size].view(bits.shape).copy_(torch.from_numpy(bits).view(dtype))

    def widen(arrays: Sequence[Array], out: Array) -> None:
        _widened_tensors([torch.from_numpy(np.concatenate(arrays, axis=None)).view(dtype)], out)

    # NumPy knows no bfloat16, but can hold the bits.
    bits = [tensor.view(torch.int16).numpy() for tensor in large]
    return total + sum_of_large(bits, functools.partial(_sum_rows, read=converted), widen, _CONVERTED)


def _sum_rows(matrices: Sequence[Array], sums: Array, read: Callable[[Array], Tensor] | None = None) -> None:
    import torch

    read = read or torch.from_numpy
    norms = torch.from_numpy(sums)
    for matrix, out in zip(matrices, norms.split([len(matrix) for matrix in matrices]), strict=True):
        torch.linalg.vector_norm(read(matrix), dim=-1, out=out)
    norms.square_()


def _widened_tensors(tensors: Sequence[Tensor], out: Array) -> None:
    import torch

    joined = torch.cat([x if x.ndim == 1 else x.reshape(-1) for x in tensors])
    if joined.dtype == torch.float32:
        # Here and not by torch, whose threads would leave half of it in the cache of another core.
        np.copyto(out, joined.numpy())
        return
    for narrow, wide in zip(joined.split(_ALONE), torch.from_numpy(out).split(_ALONE), strict=True):
        wide.copy_(narrow)
