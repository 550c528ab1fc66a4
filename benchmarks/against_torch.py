"""Compare torch's `clip_grad_norm_` with the reference, in place, on the same torch tensors, with two threads."""

from __future__ import annotations

import torch
from measure import Measure
from workloads import SOME, WORKLOADS, choose_threshold, has_only_large_tensors, make_arrays

import gradclip_spec


def run(measure: Measure) -> None:
    """Make all comparisons, with the same number of threads on every machine."""
    torch.set_num_threads(2)
    for workload in WORKLOADS:
        for dtype in ("float32", "float16", "bfloat16"):
            _compare_in_place(measure, workload, dtype, True)
        _compare_in_place(measure, workload, "float32", False)
    for workload in SOME:
        _compare_in_place(measure, workload, "float64", True)
        for norm_type in (1.0, float("inf")):
            _compare_in_place(measure, workload, "float32", True, norm_type)
        _compare_by_value(measure, workload)
    for workload in WORKLOADS:
        if measure.quick or has_only_large_tensors(workload):
            _compare_memory_floor(measure, workload)


def _compare_in_place(measure: Measure, workload: str, dtype: str, clipped: bool, norm_type: float = 2.0) -> None:
    master = [torch.from_numpy(array).to(getattr(torch, dtype)) for array in make_arrays(workload)]
    parameters = [torch.nn.Parameter(torch.empty_like(tensor)) for tensor in master]
    for parameter in parameters:
        parameter.grad = torch.empty_like(parameter)
    limit = choose_threshold(workload, clipped) if norm_type == 2 else 0.5

    def run_ours() -> None:
        grads = [parameter.grad for parameter in parameters]
        gradclip_spec.clip_by_global_norm(grads, limit, norm_type=norm_type, inplace=True)

    other = "" if norm_type == 2 else f", p = {norm_type:g}"
    measure.compare(
        run_ours,
        lambda: torch.nn.utils.clip_grad_norm_(parameters, limit, norm_type=norm_type, foreach=True),
        lambda: torch._foreach_copy_([parameter.grad for parameter in parameters], master),
        peer="torch clip_grad_norm_ (foreach)" + (", other norms and float64" if other or dtype == "float64" else ""),
        workload=workload,
        mode=f"in place{'' if clipped else ', nothing to clip'}{other}",
        dtype=dtype,
    )


def _compare_by_value(measure: Measure, workload: str) -> None:
    master = [torch.from_numpy(array) for array in make_arrays(workload)]
    parameters = [torch.nn.Parameter(torch.empty_like(tensor)) for tensor in master]
    for parameter in parameters:
        parameter.grad = torch.empty_like(parameter)
    measure.compare(
        lambda: gradclip_spec.clip_by_value([parameter.grad for parameter in parameters], 0.5, inplace=True),
        lambda: torch.nn.utils.clip_grad_value_(parameters, 0.5, foreach=True),
        lambda: torch._foreach_copy_([parameter.grad for parameter in parameters], master),
        peer="torch clip_grad_value_ (foreach)",
        workload=workload,
        mode="in place",
        dtype="float32",
    )


def _compare_memory_floor(measure: Measure, workload: str) -> None:
    tensors = [torch.from_numpy(array) for array in make_arrays(workload)]
    master = torch.cat([tensor.reshape(-1) for tensor in tensors])
    # Clip and floor use the same memory, because its speed depends on the pages that the system has given out.
    flat, limit = torch.empty_like(master), choose_threshold(workload, True)
    grads = list(flat.split([tensor.numel() for tensor in tensors]))

    def read_and_scale() -> None:
        # Read the array once and scale it once in place. The factor changes only the signs.
        torch.dot(flat, flat)
        flat.mul_(-1.0)

    measure.compare(
        lambda: gradclip_spec.clip_by_global_norm(grads, limit, inplace=True),
        read_and_scale,
        lambda: flat.copy_(master),
        peer="memory floor (torch)",
        workload=workload,
        mode="in place",
        dtype="float32",
    )
