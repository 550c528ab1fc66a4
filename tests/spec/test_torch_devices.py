"""Check torch tensors on other devices: no value is read, and devices are not mixed.

The tests need only one device. A tensor on the device "meta" has a shape but no values. Tensors of the class
`Elsewhere` claim to be on another device, but hold their values here. An operation on tensors of two devices fails, and
so does reading a value.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map_only

from gradclip_spec import clip_by_global_norm, clip_by_norm, clip_by_value, global_norm

#: A type of device that this build of torch accepts with any index.
ELSEWHERE = "meta:0", "meta:1"


class Elsewhere(torch.Tensor):  # type: ignore[misc, name-defined, unused-ignore]
    """A tensor that claims to be on another device. `here` holds its values."""

    @staticmethod
    def __new__(cls, here: Any, device: Any) -> Any:
        form = {"dtype": here.dtype, "strides": here.stride(), "storage_offset": here.storage_offset()}
        return torch.Tensor._make_wrapper_subclass(cls, here.shape, device=device, **form)

    def __init__(self, here: Any, device: Any) -> None:
        self.here = here

    @classmethod
    def __torch_dispatch__(cls, operation: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        assert operation is not torch.ops.aten._local_scalar_dense.default, "a value was read"
        tensors = [x for x in tree_leaves((args, kwargs)) if isinstance(x, torch.Tensor)]
        # A number on the CPU can be combined with tensors of any device.
        (device,) = {x.device for x in tensors if x.ndim or isinstance(x, cls)}
        known = {id(x.here): x for x in tensors if isinstance(x, cls)}
        target = (kwargs or {}).get("device", device)
        args, kwargs = tree_map_only(cls, lambda x: x.here, (args, kwargs or {}))
        results = operation(*args, **tree_map_only(torch.device, lambda _: torch.device("cpu"), kwargs))
        if target.type == "cpu":
            return results
        return tree_map_only(
            torch.Tensor,
            lambda x: known[id(x)] if id(x) in known else x if isinstance(x, cls) else cls(x, target),
            results,
        )


class Elsewheres(TorchFunctionMode):  # type: ignore[misc, unused-ignore]
    """Make tensors on other devices, and copy tensors between devices. "cuda" means the first other device."""

    def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name, kwargs = getattr(function, "__name__", ""), dict(kwargs or {})
        args = [torch.device(ELSEWHERE[0]) if isinstance(x, str) and x == "cuda" else x for x in args]
        devices = [torch.device(x) for x in (*args[1:2], kwargs.get("device")) if isinstance(x, str | torch.device)]
        plain = all(type(x) in (torch.Tensor, Elsewhere) for x in args if isinstance(x, torch.Tensor))
        if name == "where" and isinstance(args[0], Elsewhere) and len(args) == 3:
            # Before torch calls this function, it turns numbers into tensors on the device.
            like = next(x for x in args if isinstance(x, torch.Tensor) and x.dtype != torch.bool)
            args[1:] = [x if isinstance(x, torch.Tensor) else torch.full_like(like, x) for x in args[1:]]
        elif name in ("to", "as_tensor") and devices and isinstance(args[0], torch.Tensor) and plain:
            here = args[0].here if isinstance(args[0], Elsewhere) else args[0]
            dtype = kwargs.get("dtype", here.dtype)
            if devices[0] == args[0].device and dtype == here.dtype:
                return args[0]
            here = here.to(dtype, copy=True)
            return here if devices[0].type == "cpu" else Elsewhere(here, devices[0])
        elif devices and devices[0].type != "cpu" and not any(isinstance(x, torch.Tensor) for x in args):
            return Elsewhere(function(*args, **{**kwargs, "device": "cpu"}), devices[0])
        return function(*args, **kwargs)


@pytest.fixture
def elsewheres() -> Iterator[None]:
    with Elsewheres():
        yield


def _read_values(x: Any) -> Any:
    return x.here if isinstance(x, Elsewhere) else x


DEVICES = [("cpu", ELSEWHERE[0]), (ELSEWHERE[0], "cpu"), (ELSEWHERE[1], ELSEWHERE[0], "cpu"), (ELSEWHERE[1],)]


@pytest.mark.usefixtures("elsewheres")
@pytest.mark.parametrize("norm_type", [1, 2, 3, math.inf])
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
@pytest.mark.parametrize("devices", DEVICES, ids=" ".join)
@pytest.mark.parametrize("inplace", [False, True])
def test_tensors_on_several_devices(devices: tuple[str, ...], dtype: str, norm_type: float, inplace: bool) -> None:
    here = [torch.arange(-3.0, 9.0, dtype=getattr(torch, dtype)), *torch.tensor([[[5.0]], [[0.25]]])]
    here = [here[index % 3].to(here[0].dtype) * (index + 1) for index in range(5)]

    def make_grads() -> list[Any]:
        return [
            x.clone() if device == "cpu" else Elsewhere(x.clone(), torch.device(device))
            for x, device in zip(here, devices * 5, strict=False)
        ]

    def list_results(grads: list[Any]) -> list[Any]:
        how: Any = {"norm_type": norm_type, "inplace": inplace}
        clipped, total = clip_by_global_norm([x.clone() for x in grads], 7.0, **how)
        each = clip_by_norm([x.clone() for x in grads], 7.0, **how)
        values = clip_by_value([x.clone() for x in grads], 4.0, inplace=inplace)
        return [*clipped, *each, *values, total, global_norm(grads, norm_type=norm_type)]

    got, expected = list_results(make_grads()), list_results(here)
    # As in torch, the norm is on the device of the first tensor.
    assert [x.device for x in got] == [x.device for x in [*make_grads() * 3, *make_grads()[:1] * 2]]
    for x, y in zip(got, expected, strict=True):
        assert x.dtype == y.dtype
        torch.testing.assert_close(_read_values(x), y, rtol=2 * torch.finfo(y.dtype).eps, atol=0.0)


@pytest.mark.usefixtures("elsewheres")
def test_clip_in_place_copies_nothing() -> None:
    grads = [torch.full((3,), 2.0), Elsewhere(torch.full((3,), 2.0), torch.device(ELSEWHERE[0]))]
    for clip in (clip_by_global_norm, clip_by_norm, clip_by_value):
        clipped: Any = clip(grads, 1.0, inplace=True)
        clipped = clipped[0] if isinstance(clipped, tuple) else clipped
        assert all(x is y for x, y in zip(clipped, grads, strict=True))


@pytest.fixture
def mesh() -> Iterator[Any]:
    """Return a mesh of one process that says its device is a GPU."""
    if not torch.distributed.is_available() or torch.cuda.is_available():
        pytest.skip("needs torch.distributed, and a torch without a GPU, because the test pretends that there is one")
    from torch.distributed.device_mesh import DeviceMesh

    torch.distributed.init_process_group("gloo", store=torch.distributed.HashStore(), rank=0, world_size=1)
    try:
        yield DeviceMesh("cuda", [0])
    finally:
        torch.distributed.destroy_process_group()


@pytest.mark.parametrize("norm_type", [1, 2, 3, math.inf])
@pytest.mark.parametrize("inplace", [False, True])
def test_shards_on_the_cpu(mesh: Any, norm_type: float, inplace: bool) -> None:
    # FSDP2 does this with its `CPUOffloadPolicy`.
    from torch.distributed.tensor import DTensor, Shard

    class Stays(TorchFunctionMode):  # type: ignore[misc, unused-ignore]
        def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            return args[0] if getattr(function, "__name__", "") == "to" else function(*args, **(kwargs or {}))

    plain = torch.tensor([3.0, 4.0, 0.0])

    def make_grads() -> list[Any]:
        with Stays():
            return [DTensor.from_local(plain.clone(), mesh, [Shard(0)])]

    with Elsewheres():
        how: Any = {"norm_type": norm_type, "inplace": inplace}
        (clipped,), total = clip_by_global_norm(make_grads(), 1.0, **how)
        (each,) = clip_by_norm(make_grads(), 1.0, **how)
        (value,) = clip_by_value(make_grads(), 1.0, inplace=inplace)
    (expected,), norm = clip_by_global_norm([plain], 1.0, norm_type=norm_type)

    assert torch.equal(total, norm)
    for x, y in ((clipped, expected), (each, expected), (value, plain.clamp(max=1.0))):
        assert x.device_mesh == mesh
        assert type(x.to_local()) is torch.Tensor
        torch.testing.assert_close(x.to_local(), y, rtol=2.0**-22, atol=0.0)


@pytest.fixture
def copies_to_host() -> Iterator[list[str]]:
    """List the torch operations that copy a value to the host while the test runs."""
    operations: list[str] = []

    class Recorder(TorchDispatchMode):  # type: ignore[misc, unused-ignore]
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
def test_tensors_that_are_not_on_the_default_device(dtype: str, inplace: bool) -> None:
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
