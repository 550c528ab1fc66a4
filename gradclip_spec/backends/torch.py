"""The backends of torch tensors: those on the CPU are read where they lie, no value of any other is looked at."""

import contextlib
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from gradclip_spec._arithmetic import FORMATS
from gradclip_spec.backends import torch_private
from gradclip_spec.backends.base import Backend, Coefficient
from gradclip_spec.backends.in_memory import InMemory
from gradclip_spec.kernels import threads

__all__ = ["InMemoryTorch", "Torch", "choose"]

Tensor = Any
Array = np.ndarray[Any, Any]


def choose(xp: Any, tensors: Sequence[Tensor], device: Any) -> "Torch":
    """Return the backend of torch tensors on one device."""
    return InMemoryTorch(xp, tensors, device) if _may_be_read(tensors) else Torch(xp, tensors, device)


def _may_be_read(tensors: Sequence[Tensor]) -> bool:
    """Return whether all are plain tensors on the CPU, and nobody traces, transforms, records or differentiates."""
    import torch

    if torch.compiler.is_compiling() or not tensors or {type(x) for x in tensors} != {torch.Tensor}:
        return False
    if torch_private.is_transformed() or torch_private.is_differentiated_forward() or torch_private.is_recorded():
        return False
    return all(x.is_cpu and not x.requires_grad for x in tensors)


class Torch(Backend):
    """Torch tensors on any device, of which no value is looked at."""

    keeps_at_one = FORMATS

    def is_eager(self, arrays: Sequence[Tensor]) -> bool:
        """Return that no value may be looked at."""
        return False

    def context(self) -> contextlib.AbstractContextManager[Any]:
        """Return a context without autocast, and without NumPy's warnings."""
        import torch

        if not torch.compiler.is_compiling():
            return _uncast()
        # Then nothing runs in NumPy. The compiler knows neither its errstate, nor what switches autocast off at once.
        on = [kind for kind in ("cpu", "cuda") if torch.is_autocast_enabled(kind)]
        return torch.autocast(on[0], enabled=False) if on else contextlib.nullcontext()

    def explain_refusal(self, x: Tensor) -> str:
        """Report parameters, sparse tensors and those of other layouts, nested and masked ones."""
        import torch

        if type(x) is not torch.Tensor:
            if isinstance(x, torch.nn.Parameter):
                return "a torch.nn.Parameter, a weight and no gradient; pass its `.grad`"
            if isinstance(x, torch.masked.MaskedTensor):
                return "a masked tensor; fill what is masked (`to_tensor`)"
        if x.is_nested:
            return "a nested tensor; take it apart (`unbind`) or fill it up (`to_padded_tensor`)"
        return "" if x.layout == torch.strided else f"a tensor of layout {x.layout}; call its method `to_dense`"

    def explain_read_only(self, arrays: Sequence[Tensor]) -> dict[int, str]:
        """Return which tensors torch does not surely write into, and why: it would say no in the middle of the work."""
        import torch

        if torch.compiler.is_compiling():
            return {}
        reasons = {index: reason for index, x in enumerate(arrays) if (reason := _explain_read_only(x))}
        if torch_private.is_transformed():
            # A tensor from outside of a transformation cannot hold what comes of those inside.
            levels = [torch_private.list_levels(x) for x in arrays]
            every = set().union(*levels)
            outside = [index for index, level in enumerate(levels) if level != every]
            reasons |= dict.fromkeys(outside, "it is from outside of a transformation that others are inside of")
        if torch.is_grad_enabled() and any(x.requires_grad for x in arrays):
            # torch refuses in-place writes to some views (multi-output, created under no_grad), and offers no way to
            # ask which; refuse all views.
            leaves = [index for index, x in enumerate(arrays) if x.requires_grad and x.is_leaf]
            views = [index for index, x in enumerate(arrays) if torch_private.is_view(x)]
            reasons |= dict.fromkeys(views, "it is a view beside what requires grad")
            reasons |= dict.fromkeys(leaves, "it is a leaf that requires grad (of a parameter, pass its `grad`)")
        return dict(sorted(reasons.items()))

    def keep_for_derivatives(self, arrays: Sequence[Tensor]) -> Sequence[Tensor]:
        """Return copies of the tensors that derivatives need as they are."""
        import torch

        if not torch.is_grad_enabled():
            return arrays
        return [x.clone() if _may_require_grad(x) else x for x in arrays]

    def add_squares(self, arrays: Sequence[Tensor]) -> Tensor:
        """Return the sum of the squares of all elements."""
        import torch

        if any(_may_require_grad(x) for x in arrays):
            # The second derivative of a norm is NaN at zero.
            return super().add_squares(arrays)
        # The square of the norm, because this one call neither copies the array to float64 nor overflows.
        norms = [torch.linalg.vector_norm(x, dtype=torch.float64) for x in arrays]
        return torch.stack(norms).square().sum()

    def multiply(self, arrays: Sequence[Tensor], coefficient: Coefficient, inplace: bool) -> list[Tensor]:
        """Return each tensor multiplied by one coefficient."""
        if not inplace:
            return super().multiply(arrays, coefficient, False)
        for factor in self.list_factors(coefficient, self.dtypes[arrays[0].dtype]):
            for x in arrays:
                # With a dimension, the coefficient decides the dtype of the computation, and no copy of `x` is made.
                x.mul_(factor.reshape((1,) * x.ndim))
        return list(arrays)

    def clip(self, x: Tensor, lower: float, upper: float, inplace: bool) -> Tensor:
        """Return a tensor within bounds that its dtype holds exactly."""
        import torch

        if 0 in (lower, upper) and torch.compiler.is_compiling():
            # The compiler's own clamp makes one zero of the other.
            return super().clip(x, lower, upper, inplace)
        return x.clamp_(lower, upper) if inplace else x.clamp(lower, upper)


class InMemoryTorch(InMemory, Torch):  # type: ignore[misc]
    """Plain torch tensors on the CPU, not traced, transformed or differentiated."""

    def is_eager(self, arrays: Sequence[Tensor]) -> bool:
        """Return that values may be looked at."""
        return True

    def supports_float64(self) -> bool:
        """Return that there is float64."""
        return True

    def scale(self, arrays: Sequence[Tensor], coefficient: Any, inplace: bool) -> list[Tensor]:
        """Return each tensor multiplied by one coefficient, or itself if that is 1."""
        return self._record(super().scale(arrays, coefficient, inplace), inplace)

    def scale_each(self, arrays: Sequence[Tensor], coefficients: Any, inplace: bool) -> list[Tensor]:
        """Return each tensor multiplied by its own coefficient, or itself if that is 1."""
        return self._record(super().scale_each(arrays, coefficients, inplace), inplace)

    def _record(self, tensors: list[Tensor], inplace: bool) -> list[Tensor]:
        """Let torch know that tensors were written into."""
        import torch

        if inplace and tensors:
            torch.autograd.graph.increment_version(tensors)
        return tensors

    def clip(self, x: Tensor, lower: float, upper: float, inplace: bool) -> Tensor:
        """Return a tensor within bounds, itself if it is."""
        if lower <= x.min() and x.max() <= upper:
            return x
        return super().clip(x, lower, upper, inplace)

    def make_like(self, x: Tensor) -> Tensor:
        """Return a new tensor of the layout of another."""
        import torch

        return torch.empty_like(x)

    def make_number(self, value: float) -> Tensor:
        """Return a number as a tensor without dimensions."""
        import torch

        # Rounded by NumPy, so that all libraries round alike.
        return torch.asarray(float(np.asarray(value, str(self.total_dtype)[6:])), dtype=self.total_dtype, device="cpu")

    def name_dtype(self, x: Tensor) -> str:
        """Return the name of the dtype of a tensor."""
        return self.dtypes[x.dtype]

    def count(self, x: Tensor) -> int:
        """Return the number of elements."""
        size: int = x.numel()
        return size

    def is_dense(self, x: Tensor) -> bool:
        """Return whether the elements lie in one piece and in order, and the sign is not kept apart."""
        return bool(x.is_contiguous() and not x.is_neg())

    def locate(self, x: Tensor) -> int:
        """Return the address of the first element."""
        address: int = x.data_ptr()
        return address

    def view(self, x: Tensor) -> Array:
        """Return the tensor's memory, or a copy of what keeps its sign apart; of bfloat16 its bits."""
        import torch

        view: Array = (x.view(torch.int16).numpy().view(np.uint16)) if x.dtype == torch.bfloat16 else x.numpy()
        return view

    def count_threads(self) -> int:
        """Return how many threads may work: half of the cores, because torch's own keep spinning for a while."""
        return max(1, threads.count_available() // 2)


@contextlib.contextmanager
def _uncast() -> Iterator[None]:
    with np.errstate(all="ignore"), torch_private.disable_autocast():
        yield


def _may_require_grad(x: Tensor) -> bool:
    """Return whether a tensor requires grad; under a transformation it may not tell."""
    import torch

    return bool(x.requires_grad) or (not torch.compiler.is_compiling() and torch_private.is_transformed())


def _explain_read_only(x: Tensor) -> str:
    import torch

    if not x.is_contiguous() and _elements_may_overlap(x):
        return "its elements share memory"
    if x.is_neg():
        return "it has the negative bit"
    return "it is an inference tensor" if x.is_inference() and not torch.is_inference_mode_enabled() else ""


def _elements_may_overlap(tensor: Tensor) -> bool:
    # Each dimension must step over all that the dimensions with smaller steps reach.
    reach = 0
    for stride, size in sorted(zip(tensor.stride(), tensor.shape, strict=True)):
        if size > 1:
            if stride <= reach:
                return True
            reach += (size - 1) * stride
    return False
