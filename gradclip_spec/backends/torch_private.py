"""Wrap the private APIs of torch that the reference needs.

Each of them has one function here, and one test that fails if torch removes it. They were tried with torch 2.6 to 2.13.
"""

import contextlib
from typing import Any

import torch
from torch.autograd import forward_ad

__all__ = ["disable_autocast", "is_transformed", "is_view", "is_watched", "list_levels"]

Tensor = Any


def is_transformed() -> bool:
    """Return whether a transformation of torch.func (vmap, grad, ...) is active."""
    return torch._C._functorch.peek_interpreter_stack() is not None


def list_levels(tensor: Tensor) -> set[int]:
    """Return the levels of the torch.func transformations that wrap a tensor."""
    levels: set[int] = set()
    while (level := torch._C._functorch.maybe_get_level(tensor)) > 0:
        levels.add(level)
        tensor = torch._C._functorch.get_unwrapped(tensor)
    return levels


def is_watched() -> bool:
    """Return whether operations are transformed, differentiated in forward mode, or recorded for replay."""
    transformed = torch._C._functorch.peek_interpreter_stack() is not None or forward_ad._current_level >= 0
    return bool(transformed or torch._C._len_torch_dispatch_stack() or torch._C._is_tracing())


def is_view(tensor: Tensor) -> bool:
    """Return whether autograd knows that a tensor is a view of another tensor."""
    return bool(tensor._is_view())


def disable_autocast() -> contextlib.AbstractContextManager[Any]:
    """Return a context without autocast, because autocast on the CPU cannot concatenate float16 tensors."""
    context: contextlib.AbstractContextManager[Any] = torch._C._DisableAutocast()
    return context
