"""Define the backend of torch tensors on a GPU that Triton's kernels can clip."""

import functools
import importlib.util
import operator
import warnings
from collections.abc import Sequence
from typing import Any

import torch

from gradclip_spec.backends.fused import Fused
from gradclip_spec.backends.torch import Torch

Tensor = Any


@functools.cache
def load_loops() -> Any:
    """Return the passes in Triton, or None if it is not installed. Warn if it is installed but fails."""
    if importlib.util.find_spec("triton") is None:
        return None
    try:
        from gradclip_spec.kernels.triton_loops import TritonLoops
    except Exception as error:  # noqa: BLE001 - the general path serves instead, whatever is wrong with Triton
        message = f"clips are slower, because Triton does not work here ({type(error).__name__}: {error})"
        warnings.warn(message, RuntimeWarning, stacklevel=2)
        return None
    return TritonLoops()


def can_fuse(tensors: Sequence[Tensor]) -> bool:
    """Return whether the kernels can clip plain tensors that are not on the CPU, traced or differentiated."""
    devices = set(map(operator.attrgetter("is_cuda", "device"), tensors))
    if len(devices) > 1 or not tensors[0].is_cuda or any(map(operator.methodcaller("is_neg"), tensors)):
        return False
    if all(x.dtype == torch.float64 for x in tensors) or load_loops() is None:
        return False
    if not torch.cuda.is_current_stream_capturing():
        return True
    return bool(load_loops().can_record(len(tensors), sum(x.numel() for x in tensors)))


class FusedTorch(Fused, Torch):
    """The backend of plain torch tensors on one GPU."""

    def __init__(self, xp: Any, arrays: Sequence[Tensor], device: Any = None) -> None:
        super().__init__(xp, arrays, device)
        self.loops = load_loops()

    def find_problem(self, arrays: Sequence[Tensor], inplace: bool) -> tuple[int, str] | None:
        """Return a tensor that cannot be written into. Tensors of this backend have no other problems."""
        odd = not all(map(torch.Tensor.is_contiguous, arrays)) or any(map(torch.Tensor.is_inference, arrays))
        return super().find_problem(arrays, True) if inplace and odd else None

    def record_writing(self, arrays: Sequence[Tensor]) -> None:
        torch.autograd.graph.increment_version(arrays)

    def find_device(self, x: Tensor) -> Any:
        return x.device

    def supports_float64(self) -> bool:
        """Return True, because GPUs that Triton supports have float64."""
        return True

    def are_dense(self, arrays: Sequence[Tensor]) -> bool:
        return all(map(torch.Tensor.is_contiguous, arrays)) or all(map(_is_dense, arrays))

    def copy_densely(self, x: Tensor) -> Tensor:
        return x.contiguous()

    def make_like(self, x: Tensor) -> Tensor:
        return torch.empty_like(x)


def _is_dense(x: Tensor) -> bool:
    """Return whether the elements fill one piece of memory, whatever the order of the dimensions."""
    reach = 1
    for stride, size in sorted(zip(x.stride(), x.shape, strict=True)):
        if size > 1:
            if stride != reach:
                return False
            reach *= size
    return True
