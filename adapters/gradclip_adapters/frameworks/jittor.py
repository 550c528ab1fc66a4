"""Adapt Jittor: `Optimizer.clip_grad_norm`, called between the backward pass and the step of a real `SGD`.

Jittor compiles its core at the first import and each kernel at its first use, with the g++ of the machine. It keeps the
files in its cache, so later processes only load them.
"""

from __future__ import annotations

import contextlib
import os
import sys
from typing import Any, Iterator, Mapping, Sequence

import numpy as np

from ..contract import About, Call, EntryPoint, Gradient, Reply, Unsupported
from .answering import CALLS, ArrayListAdapter, cut_errors, rename


@contextlib.contextmanager
def _keep_cache_in_environment() -> Iterator[None]:
    """Let Jittor keep its cache in the folder of this environment, unless JITTOR_HOME names another.

    Jittor also writes JITTOR_HOME into a file of the user's home, and the user's other programs would then follow it.
    So this changes HOME in its place, which Jittor reads only while it is imported.
    """
    # Without these two, the import downloads CUDA and MKL.
    os.environ.setdefault("nvcc_path", "")
    os.environ.setdefault("use_mkl", "0")
    # Reports of compilations would fill the error output.
    os.environ.setdefault("log_silent", "1")
    home = os.environ.get("HOME")
    if "JITTOR_HOME" in os.environ or home is None or not os.access(sys.prefix, os.W_OK):
        yield
        return
    os.environ["HOME"] = sys.prefix
    try:
        yield
    finally:
        os.environ["HOME"] = home


with _keep_cache_in_environment():
    import jittor
    import jittor_utils

NAME = "jittor.optim.Optimizer.clip_grad_norm [SGD]"
DTYPES = ("float32", "float64")
FEATURES = (*CALLS, "optimizer", "learning_rate", "compiled", "norm_type", "none_grads", "mixed_dtypes")


class JittorAdapter(ArrayListAdapter):
    """Adapter for the clip of Jittor's optimizers on the CPU."""

    def __init__(self) -> None:
        # g++ 12 links code into each kernel that makes subnormal numbers zero in the process that loads it. Without
        # this first kernel, the first call alone would keep them.
        jittor.zeros(1).numpy()
        compiler = jittor_utils.cc_type + jittor_utils.get_version(jittor_utils.cc_path)
        device = "cuda" if jittor.flags.use_cuda else "cpu"
        super().__init__(
            About("Jittor", jittor.__version__, {"device": device, "compiler": compiler}),
            [EntryPoint(NAME, "clip_by_global_norm", DTYPES, (*FEATURES, "tensor_threshold"), (1.0, 2.0), clip=_step)],
        )

    def call(self, call: Call) -> Reply:
        """Return the parameters after a step."""
        if not call.gradients:
            message = "an optimizer of Jittor refuses an empty list of parameters"
            raise Unsupported(message, "interface")
        if any(gradient.same_as is not None for gradient in call.gradients):
            message = "the backward pass of Jittor makes another gradient for each parameter"
            raise Unsupported(message, "interface")
        if "threads" in call.options:
            message = "Jittor executes all calls in one graph of the process, and documents no use by several threads"
            raise Unsupported(message, "interface")
        return super().call(call)

    def make_tensor(self, gradient: Gradient) -> Any:
        """Return an array, which becomes a gradient in the backward pass."""
        assert gradient.array is not None
        if gradient.array.dtype not in DTYPES:
            message = (
                "the step of Jittor's SGD makes parameters of narrower dtypes float32, so it does not show the clip"
            )
            raise Unsupported(message)
        if gradient.array.shape == ():
            message = "arrays of Jittor have at least one axis"
            raise Unsupported(message, "interface")
        if gradient.layout != "contiguous":
            message = "the backward pass of Jittor makes contiguous gradients"
            raise Unsupported(message, "interface")
        return super().make_tensor(gradient)

    def make_scalar(self, value: float, dtype: str) -> Any:
        """Return an array with one element: Jittor has none without axes."""
        del dtype
        return jittor.array(value)


def _make_parameter(gradient: Any) -> Any:
    """Return a parameter of zeros. One without a gradient is frozen: an optimizer leaves it out."""
    return jittor.zeros(1).stop_grad() if gradient is None else jittor.zeros(gradient.shape, gradient.dtype.name)


@cut_errors("\nFailed reason:")
def _step(gradients: Sequence[Any], options: Mapping[str, Any]) -> tuple[list[Any], None]:
    """Make a step from zero, and return the negated parameters."""
    more = rename(options, clip_norm="max_norm")
    rate = more.pop("learning_rate", 1.0)
    parameters = [_make_parameter(gradient) for gradient in gradients]
    optimizer = jittor.optim.SGD(parameters, rate)
    # The derivative of the sum of all parameters times the gradients is the gradients. The sum begins with a float32:
    # without it, a float64 backward pass after a float32 one in the same process gives wrong gradients.
    loss = jittor.zeros(1)
    for parameter, gradient in zip(parameters, gradients):
        if gradient is not None:
            loss = loss + (parameter * jittor.array(gradient, gradient.dtype.name)).sum()
    optimizer.backward(loss)
    optimizer.clip_grad_norm(**more)
    optimizer.step()
    moved = [None if gradient is None else parameter.numpy() for parameter, gradient in zip(parameters, gradients)]
    return [None if array is None else np.zeros_like(array) - array for array in moved], None
