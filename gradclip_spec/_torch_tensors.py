"""Sums of the squares of torch tensors on the CPU, read where they lie."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from gradclip_spec import _numpy
from gradclip_spec._rows import sum_by_rows

__all__ = ["sum_of_squares"]

Tensor = Any

#: Elements of a tensor that is copied to lie beside others: to look at many takes longer than to copy these.
_SMALL = 1 << 14
#: Elements of float16 and bfloat16 that are converted at a time, so that both forms stay in the cache.
_CONVERTED = 1 << 18


def sum_of_squares(tensors: Sequence[Tensor]) -> float:
    """The sum of the squares of all elements, to a small part of float32's rounding error."""
    import torch

    dtypes = {tensor.dtype for tensor in tensors}
    if len(dtypes) > 1:
        return sum(sum_of_squares([tensor for tensor in tensors if tensor.dtype == dtype]) for dtype in dtypes)
    dtype = next(iter(dtypes), torch.float32)
    sizes = [tensor.numel() for tensor in tensors]
    if dtype == torch.float32:
        parts, sizes = _numpy.parts_of(tensors, sizes, _SMALL, torch.Tensor.numpy)
    else:
        parts, sizes = _numpy.parts_of(tensors, sizes, _SMALL, _bits, _CONVERTED)
    # torch converts float16 on all its threads.
    threads = 1 if dtype == torch.float16 else torch.get_num_threads()
    return sum_by_rows(sizes, lambda: _reader(parts, dtype), threads)


def _bits(tensor: Tensor) -> Any:
    """The bits of a tensor of two bytes an element; NumPy knows no bfloat16."""
    import torch

    return tensor.view(torch.int16).numpy().view(np.uint16)


def _reader(parts: Sequence[Any], dtype: Any) -> Callable[[int], Any]:
    import torch

    joined = torch.empty(_numpy.JOINED, dtype=dtype)
    wide = torch.empty(0 if dtype == torch.float32 else _CONVERTED, dtype=torch.float32)

    def read(index: int) -> Any:
        part = parts[index]
        if isinstance(part, list):
            size = sum([tensor.numel() for tensor in part])
            part = torch.cat([x if x.ndim == 1 else x.reshape(-1) for x in part], out=joined[:size])
            part = part.numpy() if dtype == torch.float32 else _bits(part)
        flat = part.ravel(order="K")
        if dtype == torch.float32:
            return flat
        if dtype == torch.bfloat16:
            return _numpy.of_bfloat16(flat, wide.numpy())
        return wide[: flat.size].copy_(torch.from_numpy(flat.view(np.float16))).numpy()

    return read
