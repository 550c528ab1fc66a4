"""Sums of the squares of torch tensors on the CPU, read where they lie."""

from collections.abc import Callable, Sequence
from typing import Any

from gradclip_spec import _numpy
from gradclip_spec._rows import in_float32, sum_by_rows

__all__ = ["sum_of_squares"]

Tensor = Any

#: Elements of a tensor that is copied to lie beside others: to look at many takes longer than to copy these.
_SMALL = 1 << 14
#: Elements that are worth the threads of torch, which go on looking for work when it is done.
_MANY = 1 << 19
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
    # One thread of ours, because those of torch are waiting for work.
    if dtype == torch.float32:
        parts, sizes = _numpy.parts_of(tensors, sizes, _SMALL, torch.Tensor.numpy)
        return sum_by_rows(sizes, lambda: _reader(parts, dtype), 1, _of_rows)
    parts, sizes = _numpy.parts_of(tensors, sizes, _SMALL, _bits, _CONVERTED)
    return sum_by_rows(sizes, lambda: _reader(parts, dtype), 1)


def _of_rows(rows: Any) -> Any:
    """The sums of the squares of rows, in float32; of many on all threads of torch."""
    import torch

    if rows.size < _MANY:
        return in_float32(rows)
    return torch.linalg.vector_norm(torch.from_numpy(rows), dim=-1).square_().numpy()


def _bits(tensor: Tensor) -> Any:
    """The bits of a tensor of two bytes an element; NumPy knows no bfloat16."""
    import torch

    return tensor.view(torch.int16).numpy()


def _reader(parts: Sequence[Any], dtype: Any) -> Callable[[int], Any]:
    import torch

    joined = torch.empty(_numpy.JOINED, dtype=dtype)
    wide = torch.empty(_CONVERTED, dtype=torch.float32)

    def read(index: int) -> Any:
        part = parts[index]
        if isinstance(part, list):
            size = sum([tensor.numel() for tensor in part])
            flat = torch.cat([x if x.ndim == 1 else x.reshape(-1) for x in part], out=joined[:size])
        elif dtype == torch.float32:
            return part.ravel(order="K")
        else:
            flat = torch.from_numpy(part.ravel(order="K")).view(dtype)
        return (flat if dtype == torch.float32 else wide[: flat.numel()].copy_(flat)).numpy()

    return read
