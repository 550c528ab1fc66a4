"""Define the backends of torch tensors. The memory of tensors on the CPU is read. Other values stay unread."""

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import torch

from gradclip_spec._formats import FORMATS
from gradclip_spec.backends import torch_private
from gradclip_spec.backends.base import NO_WRITING, Backend, Coefficient
from gradclip_spec.backends.in_memory import InMemory
from gradclip_spec.kernels import threads

Tensor = Any
Array = np.ndarray[Any, Any]


class Torch(Backend):
    """The backend of torch tensors on any device, which reads no values."""

    keeps_at_one = FORMATS
    slices_are_views = True
    eager: bool | None = False

    def context(self) -> contextlib.AbstractContextManager[Any]:
        """Return a context without autocast, and without NumPy's warnings."""
        if not torch.compiler.is_compiling():
            return _disable_autocast_and_warnings()
        # While compiling, nothing runs in NumPy. The compiler supports neither NumPy's errstate, nor the faster way to
        # disable autocast.
        on = [kind for kind in ("cpu", "cuda") if torch.is_autocast_enabled(kind)]
        return torch.autocast(on[0], enabled=False) if on else contextlib.nullcontext()

    def find_problem(self, arrays: Sequence[Tensor], inplace: bool) -> tuple[int, str] | None:
        """Return a tensor that is a parameter, nested, masked, of another layout, or that cannot be written into."""
        for index, x in enumerate(arrays):
            if isinstance(x, torch.nn.Parameter):
                return index, "{} is a torch.nn.Parameter, which is a weight, not a gradient; pass its `.grad`"
            if isinstance(x, torch.masked.MaskedTensor):
                return index, "{} is a masked tensor; fill the masked elements (`to_tensor`) first"
            if x.is_nested:
                return index, "{} is a nested tensor; take it apart (`unbind`) or fill it up (`to_padded_tensor`)"
            if x.layout != torch.strided:
                return index, f"{{}} is a tensor of layout {x.layout}; call its method `to_dense` first"
        return self._find_read_only(arrays) if inplace and not torch.compiler.is_compiling() else None

    def _find_read_only(self, arrays: Sequence[Tensor]) -> tuple[int, str] | None:
        """Return a tensor that torch may refuse to write into, and why. The error of torch would come too late."""
        # A tensor from outside of a transformation cannot hold the results of tensors inside it.
        levels = [torch_private.list_levels(x) for x in arrays] if torch_private.is_transformed() else []
        every = set().union(*levels)
        recorded = torch.is_grad_enabled() and any(x.requires_grad for x in arrays)
        inference = torch.is_inference_mode_enabled()
        for index, x in enumerate(arrays):
            reason = ""
            if not x.is_contiguous() and _may_overlap(x):
                reason = "its elements share memory"
            elif x.is_neg():
                reason = "it has the negative bit"
            elif not inference and x.is_inference():
                reason = "it is an inference tensor"
            elif levels and levels[index] != every:
                reason = "it is from outside of a transformation, and other tensors are inside"
            elif recorded and x.requires_grad and x.is_leaf:
                reason = "it is a leaf that requires grad (of a parameter, pass its `grad`)"
            elif recorded and torch_private.is_view(x):
                # torch refuses in-place writes to some views (multi-output, created under no_grad), and offers no way
                # to ask which. Refuse all views.
                reason = "it is a view, and another tensor requires grad"
            if reason:
                return index, NO_WRITING.format("{}", reason)
        return None

    def keep_for_derivatives(self, arrays: Sequence[Tensor]) -> Sequence[Tensor]:
        if not torch.is_grad_enabled():
            return arrays
        return [x.clone() if _may_require_grad(x) else x for x in arrays]

    def add_squares(self, arrays: Sequence[Tensor]) -> Tensor:
        """Return the sum of the squares of all elements, with the bound of the base class for n + 4 terms."""
        if any(_may_require_grad(x) for x in arrays):
            # The second derivative of a norm is NaN at zero.
            return super().add_squares(arrays)
        # Square norms, because `vector_norm` neither copies an array to float64 nor overflows.
        norms = [torch.linalg.vector_norm(x, dtype=torch.float64) for x in arrays]
        return torch.stack(norms).square().sum()

    def multiply(self, arrays: Sequence[Tensor], coefficient: Coefficient, inplace: bool) -> list[Tensor]:
        if not inplace:
            return super().multiply(arrays, coefficient, False)
        for factor in self.list_factors(coefficient, self.dtypes[arrays[0].dtype]):
            for x in arrays:
                # Give the coefficient a dimension, so that it decides the dtype of the computation without a copy of
                # `x`.
                x.mul_(factor.reshape((1,) * x.ndim))
        return list(arrays)

    def limit(self, x: Tensor, lower: float, upper: float, inplace: bool) -> Tensor:
        if 0 in (lower, upper) and torch.compiler.is_compiling():
            # The compiler's own clamp may change the sign of a zero.
            return super().limit(x, lower, upper, inplace)
        return x.clamp_(lower, upper) if inplace else x.clamp(lower, upper)


class InMemoryTorch(InMemory, Torch):
    """The backend of plain torch tensors on the CPU that are not traced, transformed or differentiated."""

    eager = True
    # Making NumPy's view of a tensor takes longer than asking for its address.
    many_arrays = 8

    def find_problem(self, arrays: Sequence[Tensor], inplace: bool) -> tuple[int, str] | None:
        """Return a tensor that cannot be written into. Tensors of this backend have no other problems."""
        plain = set(map(type, arrays)) == {torch.Tensor}
        odd = any(map(torch.Tensor.is_neg, arrays)) or any(map(torch.Tensor.is_inference, arrays))
        if plain and not (inplace and (odd or not all(map(torch.Tensor.is_contiguous, arrays)))):
            return None
        return super().find_problem(arrays, inplace)

    def record_writing(self, arrays: Sequence[Tensor]) -> None:
        torch.autograd.graph.increment_version(arrays)

    def spread(self, work: Callable[[int, int], None], sizes: Any) -> None:
        """Call `work(first, last)` for ranges of chunks, on torch's own threads, or on half as many new ones."""
        team = torch_private.find_team()
        count = min(threads.count_available(), torch.get_num_threads()) // (1 if team else 2)
        threads.spread(work, sizes, count, team or threads.run_threads)

    def measure(self, arrays: Sequence[Tensor]) -> list[int]:
        return list(map(torch.Tensor.numel, arrays))

    def view(self, arrays: Sequence[Tensor]) -> list[Array]:
        """Return the memory of the tensors, or a copy if the negative bit is set. For bfloat16, return the bits."""
        return [_view(x.resolve_neg()) for x in arrays]

    def locate(self, arrays: Sequence[Tensor]) -> list[int]:
        """Return the address of each tensor, or 0 if it does not lie in one piece, row by row."""
        methods = torch.Tensor.data_ptr, torch.Tensor.is_contiguous, torch.Tensor.is_neg
        facts = zip(*(map(method, arrays) for method in methods), strict=True)
        return [address if whole and not negative else 0 for address, whole, negative in facts]


@contextlib.contextmanager
def _disable_autocast_and_warnings() -> Iterator[None]:
    with np.errstate(all="ignore"), torch_private.disable_autocast():
        yield


def _may_require_grad(x: Tensor) -> bool:
    """Return whether a tensor may require grad. Under a transformation, its own attribute is unreliable."""
    return bool(x.requires_grad) or (not torch.compiler.is_compiling() and torch_private.is_transformed())


def _view(x: Tensor) -> Array:
    view: Array = x.view(torch.int16).numpy().view(np.uint16) if x.dtype == torch.bfloat16 else x.numpy()
    return view


def _may_overlap(tensor: Tensor) -> bool:
    # The step of each dimension must exceed the range of the dimensions with smaller steps.
    reach = 0
    for stride, size in sorted(zip(tensor.stride(), tensor.shape, strict=True)):
        if size > 1:
            if stride <= reach:
                return True
            reach += (size - 1) * stride
    return False
