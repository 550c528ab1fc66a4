"""Compare torch's `clip_grad_norm_` with the reference, in place, on the same tensors, with two threads."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from workloads import HALF_WORKLOADS, arrays, large_tensors_only, threshold

import gradclip_spec

torch = pytest.importorskip("torch", reason="PyTorch is not installed in this environment")


@pytest.fixture(autouse=True)
def two_threads() -> Iterator[None]:
    """Use the same number of threads on every machine."""
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


@pytest.fixture(params=["float32", "float16", "bfloat16"])
def dtype(request: pytest.FixtureRequest, workload: str) -> str:
    """Return the dtype of the gradients; half precision for two workloads."""
    if request.param != "float32" and workload not in HALF_WORKLOADS:
        pytest.skip(f"{request.param} is measured for {' and '.join(HALF_WORKLOADS)} only")
    return str(request.param)


def test_in_place(compare: Callable[..., None], workload: str, clipped: bool, dtype: str) -> None:
    master = [torch.from_numpy(array).to(getattr(torch, dtype)) for array in arrays(workload)]
    parameters = [torch.nn.Parameter(torch.empty_like(tensor)) for tensor in master]
    for parameter in parameters:
        parameter.grad = torch.empty_like(parameter)
    limit = threshold(workload, clipped)

    def fresh() -> None:
        torch._foreach_copy_([parameter.grad for parameter in parameters], master)

    def ours() -> None:
        grads = [parameter.grad for parameter in parameters]
        gradclip_spec.clip_by_global_norm(grads, limit, inplace=True)

    def theirs() -> None:
        torch.nn.utils.clip_grad_norm_(parameters, limit, foreach=True)

    compare(
        ours,
        theirs,
        fresh,
        peer="torch clip_grad_norm_ (foreach)",
        workload=workload,
        clipped=clipped,
        mode="in place",
        dtype=dtype,
    )


def test_memory_floor(compare: Callable[..., None], workload: str) -> None:
    if not large_tensors_only(workload):
        pytest.skip("the memory floor is asked of tensors over 64k elements")
    tensors = [torch.from_numpy(array) for array in arrays(workload)]
    master = torch.cat([tensor.reshape(-1) for tensor in tensors])
    # Both work on the same memory, because its speed depends on the pages that the system has assigned.
    flat, limit = torch.empty_like(master), threshold(workload, True)
    grads = list(flat.split([tensor.numel() for tensor in tensors]))

    def fresh() -> None:
        flat.copy_(master)

    def floor() -> None:
        # One pass reads and one scales in place. The factor keeps all numbers within the range.
        torch.dot(flat, flat)
        flat.mul_(-1.0)

    def ours() -> None:
        gradclip_spec.clip_by_global_norm(grads, limit, inplace=True)

    compare(
        ours,
        floor,
        fresh,
        peer="memory floor (torch)",
        workload=workload,
        clipped=True,
        mode="in place",
        dtype="float32",
    )
