"""Compare the reference with clips that people write in NumPy, and with the memory floor, on the same arrays."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from workloads import arrays, large_tensors_only, threshold

import gradclip_spec


def naive(grads: list[Any], clip_norm: float) -> list[Any]:
    """Clip by global norm, as a NumPy user writes it."""
    norm = np.sqrt(sum(np.sum(g**2) for g in grads))
    if norm > clip_norm:
        return [g * (clip_norm / norm) for g in grads]
    return grads


def naive_in_place(grads: list[Any], clip_norm: float) -> None:
    """Clip into the arrays that are passed."""
    norm = np.sqrt(sum(np.sum(g**2) for g in grads))
    if norm > clip_norm:
        for g in grads:
            np.multiply(g, clip_norm / norm, out=g)


@pytest.mark.parametrize("mode", ["in place", "functional"])
def test_naive(compare: Callable[..., None], workload: str, clipped: bool, mode: str) -> None:
    master = arrays(workload)
    grads = [array.copy() for array in master]
    limit, inplace = threshold(workload, clipped), mode == "in place"

    def fresh() -> None:
        if inplace:
            for grad, array in zip(grads, master, strict=True):
                np.copyto(grad, array)

    def ours() -> Any:
        return gradclip_spec.clip_by_global_norm(grads, limit, inplace=inplace)

    def theirs() -> Any:
        return naive_in_place(grads, limit) if inplace else naive(grads, limit)

    compare(
        ours,
        theirs,
        fresh,
        peer="NumPy as people write it",
        workload=workload,
        clipped=clipped,
        mode=mode,
        dtype="float32",
    )


def test_memory_floor(compare: Callable[..., None], workload: str) -> None:
    if not large_tensors_only(workload):
        pytest.skip("the memory floor is asked of tensors over 64k elements")
    master = np.concatenate(arrays(workload), axis=None)
    # Both work on the same memory, because its speed depends on the pages that the system has assigned.
    flat, limit = np.empty_like(master), threshold(workload, True)
    grads = np.split(flat, np.cumsum([array.size for array in arrays(workload)])[:-1])

    def fresh() -> None:
        np.copyto(flat, master)

    def floor() -> None:
        # One pass reads and one scales in place. The factor keeps all numbers within the range.
        np.dot(flat, flat)
        np.multiply(flat, np.float32(-1.0), out=flat)

    def ours() -> None:
        gradclip_spec.clip_by_global_norm(grads, limit, inplace=True)

    compare(
        ours,
        floor,
        fresh,
        peer="memory floor (NumPy)",
        workload=workload,
        clipped=True,
        mode="in place",
        dtype="float32",
    )


#: Workloads of all sizes between a small array and a large one.
SOME = ("1 x 10,000", "1 x 25,000,000", "1,000 x 1,000")


@pytest.mark.parametrize("norm_type", [1, 2, np.inf])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("workload", SOME)
def test_norms(compare: Callable[..., None], workload: str, dtype: str, norm_type: float) -> None:
    grads = arrays(workload, dtype)

    def theirs() -> Any:
        norms = [np.linalg.norm(x.ravel(), norm_type) for x in grads]
        return np.linalg.norm(np.asarray(norms), norm_type)

    compare(
        lambda: gradclip_spec.global_norm(grads, norm_type=norm_type),
        theirs,
        peer=f"np.linalg.norm, p = {norm_type}",
        workload=workload,
        clipped=True,
        mode="norm",
        dtype=dtype,
    )


@pytest.mark.parametrize("operation", ["value", "norm"])
@pytest.mark.parametrize("workload", SOME)
def test_other_operations(compare: Callable[..., None], workload: str, operation: str) -> None:
    grads = arrays(workload)
    limit = 0.5 if operation == "value" else 1.0
    if operation == "value":
        ours: Callable[[], Any] = lambda: gradclip_spec.clip_by_value(grads, limit)  # noqa: E731
        theirs: Callable[[], Any] = lambda: [np.clip(x, -limit, limit) for x in grads]  # noqa: E731
    else:
        ours = lambda: gradclip_spec.clip_by_norm(grads, limit)  # noqa: E731
        theirs = lambda: [naive([x], limit)[0] for x in grads]  # noqa: E731
    compare(
        ours,
        theirs,
        peer=f"NumPy as people write it, by {operation}",
        workload=workload,
        clipped=True,
        mode="functional",
        dtype="float32",
    )


@pytest.mark.parametrize("size", [10, 100_000])
def test_first_call(benchmark: Any, size: int) -> None:
    """Time the first call of a process after NumPy is imported; compiled loops of the extra `fast` are on disk."""
    program = (
        f"import numpy, time; x = numpy.ones({size}, numpy.float32); t = time.perf_counter(); import gradclip_spec; "
        "gradclip_spec.clip_by_global_norm([x], 1.0); print(time.perf_counter() - t)"
    )

    def run() -> float:
        done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
        return float(done.stdout)

    run()
    benchmark.extra_info["seconds"] = benchmark.pedantic(run, rounds=5)
