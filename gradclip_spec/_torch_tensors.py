"""Sums of the squares of torch tensors on the CPU, read where they lie."""

import functools
import sys
from collections.abc import Sequence
from typing import Any

import numpy as np

from gradclip_spec import _numpy
from gradclip_spec._rows import exact_sum, widened

__all__ = ["sum_of_squares", "sums_of_each"]

Tensor = Any
Array = np.ndarray[Any, Any]

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


def sums_of_each(tensors: Sequence[Tensor]) -> list[float]:
    """The same of each tensor."""
    return _numpy.sums_of_each(tensors, [tensor.numel() for tensor in tensors], _widen, sum_of_squares)


def _sum_of_squares_alike(tensors: Sequence[Tensor], dtype: Any) -> float:
    import torch

    sizes = [tensor.numel() for tensor in tensors]
    small = [tensor for tensor, size in zip(tensors, sizes, strict=True) if size <= _numpy.SMALL]
    large = [tensor for tensor, size in zip(tensors, sizes, strict=True) if size > _numpy.SMALL]

    def sum_rows(matrices: Sequence[Array], sums: Array) -> None:
        norms = torch.from_numpy(sums)
        for matrix, out in zip(matrices, norms.split([len(matrix) for matrix in matrices]), strict=True):
            torch.linalg.vector_norm(tensor_of(matrix), dim=-1, dtype=torch.float32, out=out)
        norms.square_()

    if dtype == torch.float32:
        # In one piece, whose rows torch itself shares out among its threads.
        read, tensor_of, widen, piece = torch.Tensor.numpy, torch.from_numpy, widened, sys.maxsize
    else:
        # NumPy knows no bfloat16, but can hold the bits. Torch makes a copy in float32.
        read, tensor_of = _bits, functools.partial(_tensor_of_bits, dtype=dtype)
        widen, piece = functools.partial(_widen_bits, dtype=dtype), _CONVERTED
    total = _numpy.sum_of_large([read(tensor) for tensor in large], sum_rows, widen, piece)
    return total + exact_sum(small, [size for size in sizes if size <= _numpy.SMALL], _widen)


def _bits(tensor: Tensor) -> Array:
    import torch

    bits: Array = tensor.view(torch.int16).numpy()
    return bits


def _tensor_of_bits(bits: Array, dtype: Any) -> Tensor:
    import torch

    return torch.from_numpy(bits).view(dtype)


def _widen_bits(arrays: Sequence[Array], out: Array, dtype: Any) -> None:
    _widen([_tensor_of_bits(np.concatenate(arrays, axis=None), dtype)], out)


def _widen(tensors: Sequence[Tensor], out: Array) -> None:
    import torch

    joined = torch.cat([x if x.ndim == 1 else x.reshape(-1) for x in tensors])
    if joined.dtype == torch.float32:
        # Here and not by torch, whose threads would leave half of it in the cache of another core.
        np.copyto(out, joined.numpy())
        return
    for narrow, wide in zip(joined.split(_ALONE), torch.from_numpy(out).split(_ALONE), strict=True):
        wide.copy_(narrow)
