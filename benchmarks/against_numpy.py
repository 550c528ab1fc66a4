"""Compare common NumPy code with the reference on the same arrays. Measure the memory floor and the first call."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
from measure import Measure
from workloads import SOME, WORKLOADS, choose_threshold, has_only_large_tensors, make_arrays

import gradclip_spec
from gradclip_spec import kernels


def run(measure: Measure) -> None:
    """Make all comparisons. Make those with common NumPy code twice, with and without the compiled loops."""
    loops = kernels.load_compiled
    for fast in ("", " (without the extra)"):
        for workload in WORKLOADS:
            for clipped in (True, False):
                for mode in ("in place", "functional"):
                    _compare_naive(measure, workload, clipped, mode, fast)
        kernels.load_compiled = lambda: None
    kernels.load_compiled = loops
    for workload in WORKLOADS:
        if measure.quick or has_only_large_tensors(workload):
            _compare_memory_floor(measure, workload)
    for workload in SOME:
        _compare_naive(measure, workload, True, "functional", ", float64", "float64")
        for dtype in ("float32", "float64"):
            for norm_type in (1, 2, np.inf):
                _compare_norms(measure, make_arrays(workload, dtype), norm_type, workload=workload, dtype=dtype)
        _compare_other_operations(measure, workload)
    _compare_norms(
        measure, [np.random.default_rng(1).standard_normal(10_000_000)], 2, workload="1 x 10,000,000", dtype="float64"
    )
    _measure_first_calls(measure)


def clip_naively(grads: list[Any], clip_norm: float) -> list[Any]:
    """Clip by global norm, as a NumPy user writes it."""
    norm = np.sqrt(sum(np.sum(g**2) for g in grads))
    if norm > clip_norm:
        return [g * (clip_norm / norm) for g in grads]
    return grads


def clip_naively_in_place(grads: list[Any], clip_norm: float) -> None:
    """Clip into the arrays that are passed."""
    norm = np.sqrt(sum(np.sum(g**2) for g in grads))
    if norm > clip_norm:
        for g in grads:
            np.multiply(g, clip_norm / norm, out=g)


def _compare_naive(
    measure: Measure, workload: str, clipped: bool, mode: str, words: str, dtype: str = "float32"
) -> None:
    master = make_arrays(workload, dtype)
    grads = [array.copy() for array in master]
    limit, inplace = choose_threshold(workload, clipped), mode == "in place"

    def renew() -> None:
        if inplace:
            for grad, array in zip(grads, master, strict=True):
                np.copyto(grad, array)

    measure.compare(
        lambda: gradclip_spec.clip_by_global_norm(grads, limit, inplace=inplace),
        lambda: clip_naively_in_place(grads, limit) if inplace else clip_naively(grads, limit),
        renew,
        peer=f"NumPy as people write it{words}",
        workload=workload,
        mode=f"{mode}{'' if clipped else ', nothing to clip'}",
        dtype=dtype,
    )


def _compare_memory_floor(measure: Measure, workload: str) -> None:
    master = np.concatenate(make_arrays(workload), axis=None)
    # Clip and floor use the same memory, because its speed depends on the pages that the system has given out.
    flat, limit = np.empty_like(master), choose_threshold(workload, True)
    grads = np.split(flat, np.cumsum([array.size for array in make_arrays(workload)])[:-1])

    def read_and_scale() -> None:
        # Read the array once and scale it once in place. The factor changes only the signs.
        np.dot(flat, flat)
        np.multiply(flat, np.float32(-1.0), out=flat)

    measure.compare(
        lambda: gradclip_spec.clip_by_global_norm(grads, limit, inplace=True),
        read_and_scale,
        lambda: np.copyto(flat, master),
        peer="memory floor (NumPy)",
        workload=workload,
        mode="in place",
        dtype="float32",
    )


def _compare_norms(measure: Measure, grads: list[Any], norm_type: float, **names: str) -> None:
    def run_theirs() -> Any:
        norms = [np.linalg.norm(x.ravel(), norm_type) for x in grads]
        return np.linalg.norm(np.asarray(norms), norm_type)

    measure.compare(
        lambda: gradclip_spec.global_norm(grads, norm_type=norm_type),
        run_theirs,
        peer="np.linalg.norm",
        mode=f"norm, p = {norm_type:g}",
        **names,
    )


def _compare_other_operations(measure: Measure, workload: str) -> None:
    grads = make_arrays(workload)
    operations: dict[str, tuple[Callable[[], Any], Callable[[], Any]]] = {
        "by value": (
            lambda: gradclip_spec.clip_by_value(grads, 0.5),
            lambda: [np.clip(x, -0.5, 0.5) for x in grads],
        ),
        "by norm": (lambda: gradclip_spec.clip_by_norm(grads, 1.0), lambda: [clip_naively([x], 1.0)[0] for x in grads]),
    }
    for operation, (ours, theirs) in operations.items():
        peer = f"NumPy as people write it, {operation}"
        measure.compare(ours, theirs, peer=peer, workload=workload, mode="functional", dtype="float32")


def _measure_first_calls(measure: Measure) -> None:
    """Time the import of the reference and the first call of a process. Do not time the import of NumPy."""
    beginning = "import numpy, time; x = numpy.ones({}, numpy.float32); t = time.perf_counter(); import gradclip_spec; "
    call = "gradclip_spec.clip_by_global_norm([x], 1.0); "
    for what, size, program in (
        ("import", 1, ""),
        ("first call", 10, call),
        ("first call that compiled loops serve", 100_000, call),
    ):
        command = [sys.executable, "-c", beginning.format(size) + program + "print(time.perf_counter() - t)"]

        def start(command: list[str] = command) -> float:
            return float(subprocess.run(command, capture_output=True, text=True, check=True).stdout)

        # The first process compiles the loops and caches them on disk.
        start()
        measure.record(start, peer="seconds of a process", workload=what, mode="", dtype="float32")
