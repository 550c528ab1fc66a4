"""Check that a clip of lazy or device tensors reads no value on the host, neither for the norm nor to scale."""

from __future__ import annotations

import math
from typing import Any

import pytest

from gradclip_spec import clip_by_global_norm, clip_by_norm, clip_by_value, global_norm


@pytest.fixture
def copies_to_host(require: Any) -> Any:
    """List the torch operations that copy a value to the host while the test runs."""
    require("torch")
    from torch.utils._python_dispatch import TorchDispatchMode

    operations: list[str] = []

    class Recorder(TorchDispatchMode):  # type: ignore[misc]
        def __torch_dispatch__(self, operation: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            name = str(operation)
            copies = "_to_copy" in name and str((kwargs or {}).get("device")) == "cpu"
            if copies or any(word in name for word in ("_local_scalar_dense", "nonzero", "masked_select", "equal.")):
                operations.append(name)
            return operation(*args, **(kwargs or {}))

    with Recorder():
        yield operations


@pytest.mark.parametrize("norm_type", [1, 2, 3, math.inf])
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
def test_clip_of_tensors_without_values_reads_no_value(copies_to_host: list[str], dtype: str, norm_type: float) -> None:
    import torch

    # A tensor on the device "meta" has a shape but no values, so reading a value fails.
    grads = [torch.empty(shape, dtype=getattr(torch, dtype), device="meta") for shape in [(5, 3), (300_000,), ()]]
    for inplace in (False, True):
        clipped, total = clip_by_global_norm([*grads, None], 1.0, norm_type=norm_type, inplace=inplace)
        clipped += clip_by_norm(grads, 1.0, norm_type=norm_type, inplace=inplace)
        clipped += clip_by_value(grads, 1.0, inplace=inplace)

        assert total.device.type == "meta"
        assert {(x.device.type, x.dtype) for x in clipped if x is not None} == {("meta", grads[0].dtype)}
    assert copies_to_host == []


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_recording_derivatives_reads_no_value(copies_to_host: list[str], dtype: str) -> None:
    import torch

    grads = [torch.ones(5, 3, dtype=getattr(torch, dtype), requires_grad=True)]
    clipped, total = clip_by_global_norm(grads, 1.0)

    assert copies_to_host == []
    assert total.requires_grad
    assert clipped[0].requires_grad
    # Prove that the recorder sees a copy to the host.
    float(global_norm(grads).detach())
    assert copies_to_host == ["aten._local_scalar_dense.default"]


@pytest.mark.parametrize("inplace", [True, False])
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
def test_tensors_that_are_not_on_the_default_device(require: Any, dtype: str, inplace: bool) -> None:
    require("torch")
    import torch

    def make_grads() -> list[Any]:
        shapes: list[tuple[int, ...]] = [(5, 3), (300_000,), ()]
        return [torch.full(shape, 2.0, dtype=getattr(torch, dtype), device="cpu") for shape in shapes]

    def clip_all() -> list[Any]:
        clipped, norm = clip_by_global_norm(make_grads(), 1.0, inplace=inplace)
        each = clip_by_norm(make_grads(), 1.0, inplace=inplace)
        return [
            *clipped,
            norm,
            *each,
            *clip_by_value(make_grads(), 1.0, inplace=inplace),
            global_norm(make_grads(), norm_type=3),
        ]

    expected = clip_all()
    # Gradients may be kept on the CPU while the model is on a GPU.
    with torch.device("meta"):
        results = clip_all()
    assert all(torch.equal(result, value) for result, value in zip(results, expected, strict=True))
