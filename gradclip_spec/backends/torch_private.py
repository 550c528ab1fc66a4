"""Wrap the private APIs of torch that the reference needs.

Each of them has one function here, and tests of torch tensors fail if torch removes it. They were tried with torch 2.6
to 2.13.
"""

import contextlib
import ctypes
import os
from typing import Any

import torch
from torch.autograd import forward_ad

from gradclip_spec.kernels.threads import Team

Tensor = Any

#: The functions of GNU's OpenMP library that run torch's threads on Linux, and the process that has these threads.
_calls: list[Any] = [getattr(ctypes.CDLL(torch._C.__file__), f"GOMP_parallel_{x}", None) for x in ("start", "end")]
_start, _end = _calls
_process = os.getpid()


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


def find_team() -> Team | None:
    """Return a function that runs another one on torch's own threads. Return None if torch does not use GNU's OpenMP.

    Torch's threads spin for some milliseconds after each operation, and other threads would share the cores with them.
    A forked process has no threads of its parent, so it gets None, too.
    """
    return _run_team if _start and _end and os.getpid() == _process else None


def _run_team(function: Any, count: int) -> None:
    task = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(lambda _: function())
    try:
        # A signal can interrupt this thread before or after each of these calls, but not between `try` and the first.
        _start(task, None, count)
        function()
    finally:
        _end()
