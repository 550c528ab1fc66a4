"""Check the memory that a clip in place allocates: at most 1 % of the gradients and 16 MiB."""

from __future__ import annotations

import math
import os
import subprocess
import sys
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gradclip_spec import clip_by_global_norm, clip_by_norm, clip_by_value

#: Shapes of gradients: one large array, several medium ones, and the embedding and two layers of GPT-2.
SHAPES: dict[str, list[tuple[int, ...]]] = {
    "one large": [(25_000_000,)],
    "a hundred": [(250_000,)] * 100,
    "GPT-2": [(50257, 768), (1024, 768), *[(768, 2304), (2304,), (768, 768), (768, 3072), (3072, 768), (768,)] * 2],
}
DTYPES = ["float16", "bfloat16", "float32"]
#: GRADCLIP_DEEP=1 runs the other shapes, too.
CHOSEN = list(SHAPES) if "GRADCLIP_DEEP" in os.environ else ["a hundred"]
LAYOUTS = ["transposed", "every other column", "axes moved"][: 3 if "GRADCLIP_DEEP" in os.environ else 2]

OPERATIONS: dict[str, Callable[[Any], Any]] = {
    "value": lambda grads: clip_by_value(grads, 0.25, inplace=True),
    "norm": lambda grads: clip_by_norm(grads, 1.0, inplace=True),
    "global norm": lambda grads: clip_by_global_norm(grads, 0.5, inplace=True)[0],
    "infinity norm": lambda grads: clip_by_norm(grads, 0.25, norm_type=math.inf, inplace=True),
}


def make_gradients(shapes: str, dtype: str) -> list[np.ndarray[Any, Any]]:
    """Return gradients that every operation clips."""
    if dtype == "bfloat16":
        ml_dtypes = pytest.importorskip("ml_dtypes")
        return [np.full(shape, 0.5, ml_dtypes.bfloat16) for shape in SHAPES[shapes]]
    return [np.full(shape, 0.5, dtype) for shape in SHAPES[shapes]]


def assert_within_budget(operation: Callable[[Any], Any], grads: list[np.ndarray[Any, Any]]) -> None:
    """Assert that an operation in place stays within its memory budget."""
    __tracebackhide__ = True
    # The first call with compiled loops imports numba, whose own memory does not count.
    operation([np.ones(1 << 16, grads[0].dtype)])
    tracemalloc.start()
    try:
        operation(grads)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    budget = sum(x.nbytes for x in grads) // 100 + 16 * 2**20
    assert peak <= budget, f"{peak / 2**20:.1f} MB were taken, the budget is {budget / 2**20:.1f} MB"
    assert float(grads[0].ravel()[0]) < 0.5, "nothing was clipped"


@pytest.mark.thorough(sample=5)
@pytest.mark.parametrize("operation", list(OPERATIONS))
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shapes", CHOSEN)
def test_numpy_arrays_take_little_memory(shapes: str, dtype: str, operation: str) -> None:
    assert_within_budget(OPERATIONS[operation], make_gradients(shapes, dtype))


@pytest.mark.thorough(sample=1)
@pytest.mark.parametrize("norm_type", [1, 3, math.inf])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_other_norms_take_little_memory(dtype: str, norm_type: float) -> None:
    assert_within_budget(
        lambda grads: clip_by_global_norm(grads, 0.25, norm_type=norm_type, inplace=True)[0],
        make_gradients(CHOSEN[-1], dtype),
    )


@pytest.mark.thorough(sample=3)
@pytest.mark.parametrize("operation", list(OPERATIONS))
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_numpy_views_take_little_memory(layout: str, dtype: str, operation: str) -> None:
    base = np.full((2000, 5000), 0.5, dtype)
    views = {
        "transposed": base.T,
        "every other column": base[:, ::2],
        "axes moved": np.moveaxis(base.reshape(20, 100, 5000), 0, 1),
    }

    assert_within_budget(OPERATIONS[operation], [views[layout]])


def read_peak_memory() -> int:
    """Return the peak memory of this process in bytes."""
    status = Path("/proc/self/status")
    if status.exists():
        # `getrusage` includes the peak of the parent process here.
        (line,) = (line for line in status.read_text(encoding="utf-8").splitlines() if line.startswith("VmHWM:"))
        return int(line.split()[1]) * 1024
    import resource

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


def print_peak_of_torch(shapes: str, dtype: str) -> None:
    """Print by how many bytes the clips raise the peak memory of this process."""
    import torch

    grads = [torch.full(shape, 0.5, dtype=getattr(torch, dtype)) for shape in SHAPES[shapes]]
    warm = [torch.full((1 << 18,), 0.5, dtype=getattr(torch, dtype)) for _ in range(3)]
    for operation in OPERATIONS.values():
        operation(warm)
    before = read_peak_memory()
    for operation in OPERATIONS.values():
        operation(grads)
    after = read_peak_memory()
    assert float(grads[0].flatten()[0]) < 0.5
    print(after - before, sum(x.nbytes for x in grads))


@pytest.mark.skipif(sys.platform == "win32", reason="this system does not report the peak memory of a process")
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shapes", list(SHAPES))
def test_torch_tensors_take_little_memory(shapes: str, dtype: str) -> None:
    # The peak of a process never shrinks, so each measurement needs a new process.
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    command = [sys.executable, __file__, shapes, dtype]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    extra, size = map(int, done.stdout.split())

    assert size == sum(math.prod(shape) for shape in SHAPES[shapes]) * (4 if dtype == "float32" else 2)
    budget = size // 100 + 16 * 2**20
    assert extra <= budget, f"{extra / 2**20:.1f} MB were taken, the budget is {budget / 2**20:.1f} MB"


if __name__ == "__main__":
    print_peak_of_torch(*sys.argv[1:])
