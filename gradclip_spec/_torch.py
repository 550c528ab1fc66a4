"""The primitives of torch tensors; those on the CPU are read where they lie."""

import contextlib
import functools
import operator
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from gradclip_spec import _numpy
from gradclip_spec._float32_sums import ROW
from gradclip_spec._float64_sums import Sum, added, sum_of_squares_in_float64, widen_arrays
from gradclip_spec._primitives import Primitives
from gradclip_spec._scalars import FORMATS
from gradclip_spec._scratch import borrowed

__all__ = ["primitives"]

Tensor = Any
Array = np.ndarray[Any, Any]

#: Elements that are converted at a time, so that both forms stay in the cache.
_CONVERTED = 1 << 18
#: Elements that torch converts in one thread.
_ONE_THREAD = 1 << 15


def primitives(standard: Primitives) -> Primitives:
    """The primitives of torch, on any device."""
    import torch
    from torch.autograd import forward_ad

    transformation = torch._C._functorch.peek_interpreter_stack

    def eager(arrays: Sequence[Tensor]) -> bool:
        if torch.compiler.is_compiling() or transformation() is not None or forward_ad._current_level >= 0:
            return False
        if torch._C._len_torch_dispatch_stack() or torch._C._is_tracing():
            # Someone records what is done, to do it again with other values.
            return False
        plain = {type(x) for x in arrays} <= {torch.Tensor, torch.nn.Parameter}
        return plain and all(x.is_cpu and not x.requires_grad for x in arrays)

    def sum_of_squares_lazy(arrays: Sequence[Tensor]) -> Tensor:
        transformed = not torch.compiler.is_compiling() and transformation() is not None
        if transformed or any(x.requires_grad for x in arrays):
            # The second derivative of a norm is NaN at zero. (Under a transformation, a tensor may not tell that it
            # requires grad.)
            return standard.sum_of_squares_lazy(arrays)
        # The square of the norm, because this one call neither copies the array to float64 nor overflows.
        norms = [torch.linalg.vector_norm(x, dtype=torch.float64) for x in arrays]
        return torch.stack(norms).square().sum()

    def multiply(arrays: Sequence[Tensor], k: Any, wide: Any, inplace: bool) -> list[Tensor]:
        dtype = arrays[0].dtype
        if isinstance(k, float) and wide in (dtype, torch.float32):
            # Either way torch computes float16 and bfloat16 in float32 and rounds once. A tensor as factor is several
            # times as fast as a number, but would give a new array without dimensions its own dtype.
            factor = torch.tensor(k, dtype=wide, device="cpu") if inplace or dtype == wide else k
            if not inplace:
                return list(torch._foreach_mul(arrays, factor))
            # Backwards, because what was read last is still in the cache.
            torch._foreach_mul_(arrays[::-1], factor)
            return list(arrays)
        if isinstance(k, float) and dtype == torch.float32:
            # In float64, which NumPy does without a copy of the whole.
            results = list(arrays) if inplace else [x.resolve_neg().clone() for x in arrays]
            _numpy.multiply([x.numpy() for x in results], k, np.float64, inplace=True)
            torch.autograd.graph.increment_version(results)
            return results
        if inplace and isinstance(k, float):
            for x in arrays:
                for part in _parts(x, _CONVERTED):
                    part.copy_(part.to(wide) * k)
            return list(arrays)
        if inplace:
            # With a dimension, the coefficient decides the dtype of the computation, and no copy of `x` is made.
            for x in arrays:
                x.mul_(k.reshape((1,) * x.ndim))
            return list(arrays)
        return standard.multiply(arrays, k, wide, inplace)

    def clip(x: Tensor, lower: float, upper: float, inplace: bool) -> Tensor:
        if 0 in (lower, upper) and torch.compiler.is_compiling():
            # The compiler's own clamp makes one zero of the other.
            return standard.clip(x, lower, upper, inplace)
        return x.clamp_(lower, upper) if inplace else x.clamp(lower, upper)

    def kept_for_derivatives(arrays: Sequence[Tensor]) -> Sequence[Tensor]:
        if not torch.is_grad_enabled():
            return arrays
        # Under a transformation, a tensor may not tell that it requires grad.
        transformed = not torch.compiler.is_compiling() and transformation() is not None
        return [x.clone() if transformed or x.requires_grad else x for x in arrays]

    def context() -> contextlib.AbstractContextManager[Any]:
        if not torch.compiler.is_compiling():
            return uncast()
        # Then nothing runs in NumPy. The compiler knows neither its errstate, nor what switches autocast off at once.
        on = [kind for kind in ("cpu", "cuda") if torch.is_autocast_enabled(kind)]
        return torch.autocast(on[0], enabled=False) if on else contextlib.nullcontext()

    @contextlib.contextmanager
    def uncast() -> Iterator[None]:
        # On the CPU, autocast refuses to join float16.
        with np.errstate(all="ignore"), torch._C._DisableAutocast():
            yield

    return Primitives(
        sum_of_squares_lazy,
        _sum_of_squares,
        _sums_of_each,
        multiply,
        clip,
        eager=eager,
        writeable=_writeable,
        strange=_strange,
        context=context,
        keeps_at_one=FORMATS,
        kept_for_derivatives=kept_for_derivatives,
    )


def _sum_of_squares(tensors: Sequence[Tensor]) -> Sum:
    """The sum of the squares of all elements, to a small part of float32's rounding error."""
    sizes = [tensor.numel() for tensor in tensors]
    if max(sizes, default=0) <= _numpy.SMALL:
        return Sum(sum_of_squares_in_float64(tensors, sizes, _widen))
    small = [tensor for tensor, size in zip(tensors, sizes, strict=True) if size <= _numpy.SMALL]
    of_small = Sum(sum_of_squares_in_float64(small, [tensor.numel() for tensor in small], _widen))
    large = [tensor for tensor, size in zip(tensors, sizes, strict=True) if size > _numpy.SMALL]
    dtypes = {tensor.dtype for tensor in large}
    return added(of_small, *(_sum_of_large([x for x in large if x.dtype == dtype], dtype) for dtype in dtypes))


def _sums_of_each(tensors: Sequence[Tensor]) -> list[Sum]:
    """The same of each tensor."""
    return _numpy.sums_of_each(tensors, [tensor.numel() for tensor in tensors], _widen, _sum_of_squares)


def _sum_of_large(tensors: Sequence[Tensor], dtype: Any) -> Sum:
    import torch

    def sum_rows(matrices: Sequence[Array], sums: Array) -> None:
        # Norms of halves of rows, because torch adds elements one after the other.
        with borrowed(2 * sums.size, np.float32) as norms, borrowed(sums.size, np.float64) as squares:
            outs = torch.from_numpy(norms).split([2 * len(matrix) for matrix in matrices])
            for matrix, out in zip(matrices, outs, strict=True):
                halves = tensor_of(matrix.reshape(-1, ROW // 2))
                torch.linalg.vector_norm(halves, dim=-1, dtype=torch.float32, out=out)
            np.square(norms[::2], out=sums, dtype=np.float64)
            np.square(norms[1::2], out=squares, dtype=np.float64)
            sums += squares

    if dtype == torch.float32:
        read, tensor_of, widen = torch.Tensor.numpy, torch.from_numpy, widen_arrays
        # Whole tensors: each call of torch waits for all its threads, one of which may be doing something else.
        piece = max(tensor.numel() for tensor in tensors)
    else:
        # NumPy knows no bfloat16, but can hold the bits. Torch makes a copy in float32.
        read, tensor_of = _bits, functools.partial(_tensor_of_bits, dtype=dtype)
        widen, piece = functools.partial(_widen_bits, dtype=dtype), _CONVERTED
    # NumPy cannot hold tensors with the negative bit.
    arrays = [read(tensor.resolve_neg()) for tensor in tensors]
    return _numpy.sum_of_large(arrays, sum_rows, widen, piece)


def _parts(tensor: Tensor, size: int) -> Sequence[Tensor]:
    """A tensor in flat parts of a size, if it is larger and lies in one piece."""
    return tensor.view(-1).split(size) if tensor.numel() > size and tensor.is_contiguous() else [tensor]


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
    for narrow, wide in zip(joined.split(_ONE_THREAD), torch.from_numpy(out).split(_ONE_THREAD), strict=True):
        wide.copy_(narrow)


def _strange(tensors: Sequence[Tensor]) -> str:
    """Sparse tensors and those of other layouts, nested and masked ones."""
    import torch

    if torch.masked.MaskedTensor in set(map(type, tensors)):
        return "a masked tensor; fill what is masked (`to_tensor`)"
    if any(map(operator.attrgetter("is_nested"), tensors)):
        return "a nested tensor; take it apart (`unbind`) or fill it up (`to_padded_tensor`)"
    layouts = set(map(operator.attrgetter("layout"), tensors)) - {torch.strided}
    return f"a tensor of layout {layouts.pop()}; call its method `to_dense`" if layouts else ""


def _writeable(tensors: Sequence[Tensor]) -> list[bool]:
    """Whether torch surely writes into each tensor: it would say no in the middle of the work."""
    import torch

    if torch.compiler.is_compiling():
        return [True] * len(tensors)
    inference = torch.is_inference_mode_enabled()
    flags = [
        (x.is_contiguous() or not _elements_may_overlap(x)) and not x.is_neg() and (inference or not x.is_inference())
        for x in tensors
    ]
    if torch.is_grad_enabled() and any(x.requires_grad for x in tensors):
        # Of views, it refuses those that were made together, or without being recorded, which they do not tell.
        refused = [x._is_view() or (x.requires_grad and x.is_leaf) for x in tensors]
        flags = [flag and not no for flag, no in zip(flags, refused, strict=True)]
    if torch._C._functorch.peek_interpreter_stack() is not None:
        # A tensor from outside of a transformation cannot hold what comes of those inside.
        levels = [_levels(x) for x in tensors]
        all_levels = set().union(*levels)
        flags = [flag and level == all_levels for flag, level in zip(flags, levels, strict=True)]
    return flags


def _levels(tensor: Tensor) -> set[int]:
    """The transformations that a tensor is inside of."""
    import torch

    levels: set[int] = set()
    while (level := torch._C._functorch.maybe_get_level(tensor)) > 0:
        levels.add(level)
        tensor = torch._C._functorch.get_unwrapped(tensor)
    return levels


def _elements_may_overlap(tensor: Tensor) -> bool:
    # Each dimension must step over all that the dimensions with smaller steps reach.
    reach = 0
    for stride, size in sorted(zip(tensor.stride(), tensor.shape, strict=True)):
        if size > 1:
            if stride <= reach:
                return True
            reach += (size - 1) * stride
    return False
