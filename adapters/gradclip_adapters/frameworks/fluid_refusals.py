"""Refuse calls that fluid's clips, or this CPU build, cannot perform."""

from __future__ import annotations

import contextlib
from typing import Iterator

from ..arrays import TRAINING
from ..contract import Call, EntryPoint, Unsupported, read_text

__all__ = ["refuse_failed_backward", "refuse_unsupported", "refuse_ways"]

#: Measured with 1.8.5 on 2 cores: 1,000 gradients in a program take 10 s; 100,000 elements in `clip_by_norm` take 6 s.
MOST_IN_A_PROGRAM = 500
MOST_ELEMENTS_OF_A_NORM = 100000


def refuse_ways(call: Call) -> None:
    """Refuse a call that is made in a way that fluid does not offer.

    Raises
    ------
    Unsupported
        If the call asks for such a way.
    """
    if any(gradient.same_as is not None or gradient.layout != "contiguous" for gradient in call.gradients):
        message = "fluid's gradients come from a backward pass, which gives each of them once, in fluid's own layout"
        raise Unsupported(message, "interface")
    if any(gradient.rows is not None for gradient in call.gradients) or "reused" in call.options:
        message = "this adapter makes no row-sparse gradients, and no earlier calls on the same tensors"
        raise Unsupported(message)
    if "as_generator" in call.options or "as_single" in call.options:
        message = "a user passes no gradients, because the program or the optimizer knows the parameters"
        raise Unsupported(message, "interface")
    if any(name in call.options for name in TRAINING):
        message = "this adapter takes one step, from zero"
        raise Unsupported(message)
    if "threads" in call.options:
        message = "fluid's programs, scopes and names are shared by the whole process"
        raise Unsupported(message)


def refuse_unsupported(call: Call, subject: EntryPoint) -> None:
    """Refuse a call whose gradients fluid, or this CPU build, cannot clip.

    Raises
    ------
    Unsupported
        If the call has such gradients.
    """
    arrays = [gradient.array for gradient in call.gradients if gradient.array is not None]
    if any(array.dtype == "bfloat16" for array in arrays):
        message = "fluid 1.8 has no bfloat16"
        raise Unsupported(message, "interface")
    if not arrays:
        message = "fluid needs a loss, and no parameter of this call takes part in one"
        raise Unsupported(message, "interface")
    if "static" in subject.name and len(arrays) > MOST_IN_A_PROGRAM:
        message = (
            f"fluid builds a static program in time quadratic in its gradients; at most {MOST_IN_A_PROGRAM} are tried"
        )
        raise Unsupported(message)
    if subject.operation == "clip_by_norm" and max(len(array.data) // 4 for array in arrays) > MOST_ELEMENTS_OF_A_NORM:
        message = (
            "fluid's CPU kernel `clip_by_norm` takes time quadratic in the elements, 6 s for 100,000 and ten minutes "
            f"for a million; at most {MOST_ELEMENTS_OF_A_NORM:,} are tried"
        )
        raise Unsupported(message)
    if len({array.dtype for array in arrays}) > 1:
        message = "fluid's optimizers take parameters of one dtype"
        raise Unsupported(message, "interface")
    if any(array.shape == () for array in arrays):
        message = "fluid has no 0-d tensors"
        raise Unsupported(message, "interface")


@contextlib.contextmanager
def refuse_failed_backward(dtype: str) -> Iterator[None]:
    """Mark the backward pass that makes the gradients. Refuse the call if the CPU build has no kernels for float16.

    Raises
    ------
    Unsupported
        If fluid cannot make them.
    """
    try:
        yield
    except Exception as error:
        if dtype != "float16":
            raise
        lines = [line.strip() for line in read_text(error).splitlines() if line.strip(" -")] or [""]
        told = next((line for line in lines if "Error: " in line), lines[0])
        message = f"no backward pass makes such gradients: {told:.300}"
        raise Unsupported(message, "kernel") from error
