"""Test the tensors that the torch adapter makes, and how it passes them to torch. Needs torch."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from gradclip_adapters.contract import (
    Array,
    Call,
    Gradient,
    Reply,
    Unsupported,
)
from gradclip_adapters.frameworks.torch import TorchAdapter, make_tensor, read_array
from gradclip_adapters.frameworks.torch_based import parameters

ADAPTER = TorchAdapter()
#: The entry points of one process. `test_distributed_engines` tests the others.
SUBJECTS = {subject.name: subject for subject in ADAPTER.subjects() if "distributed" not in subject.features}
SCALED = "torch.nn.utils.clip_grad_norm_ then torch.amp.GradScaler.step"
DTYPES = ("float16", "bfloat16", "float32", "float64")
VALUES = ([[3.0, -4.0, 0.5], [0.0, -0.0, 12.0]], [1.0, 2.0], 7.0)


def test_tensors_are_made_on_the_chosen_device(monkeypatch: pytest.MonkeyPatch) -> None:
    # Tensors on this device have no values, but every machine has it.
    monkeypatch.setattr(parameters, "_device", torch.device("meta"))
    array = Array.of(np.ones((4, 6), np.float32))

    for layout in ("contiguous", "strided", "transposed", "sliced"):
        tensor = make_tensor(array, layout)
        assert (tensor.device.type, tensor.shape) == ("meta", (4, 6))
    with pytest.raises(Unsupported, match="a buffer of its own"):
        make_tensor(array, "packed")
    subjects = TorchAdapter.subjects(ADAPTER)
    assert not any({"packed", "distributed"} & {*subject.features} for subject in subjects)


@pytest.mark.parametrize("layout", ["strided", "transposed", "sliced"])
@pytest.mark.parametrize("shape", [(4, 3), (0, 3), (5,)])
def test_tensor_on_another_device_keeps_its_strides(layout: str, shape: tuple[int, ...]) -> None:
    values = np.arange(np.prod(shape), dtype=np.float32).reshape(shape)
    tensor = make_tensor(Array.of(values), layout)
    # A copy on the CPU stands for one on another device.
    copy = parameters._move_with_strides(tensor, torch.device("cpu"))

    assert copy.stride() == tensor.stride()
    assert copy.data_ptr() != tensor.data_ptr() or not values.size
    assert torch.equal(copy, tensor)


def list_subjects(*features: str) -> list[str]:
    """Return the entry points that have all these features."""
    return sorted(name for name, subject in SUBJECTS.items() if set(features) <= set(subject.features))


def make_gradients(dtype: str) -> tuple[Gradient, ...]:
    """Return three gradients with a None among them."""
    arrays = [read_array(torch.tensor(values, dtype=getattr(torch, dtype))) for values in VALUES]
    first, *rest = (Gradient(f"g{number}", array) for number, array in enumerate(arrays))
    return (first, Gradient("none", None), *rest)


def test_gradient_of_another_dtype_than_its_parameter_is_refused() -> None:
    gradient = Gradient("", Array.of(np.ones(2, np.float16)), parameter=Array.of(np.ones(2, np.float32)))

    with pytest.raises(Unsupported, match="torch refuses a gradient of"):
        parameters.make_parameter(gradient)
    with pytest.raises(RuntimeError):
        torch.nn.Parameter(torch.ones(2)).grad = torch.ones(2, dtype=torch.float16)


def make_options(subject: str, threshold: float) -> dict[str, Any]:
    """Return options with the threshold under the name that the operation uses."""
    return {"max" if "value" in subject else "clip_norm": threshold}


def read_values(reply: Reply) -> list[Any]:
    """Return the gradients of a reply as lists."""
    return [None if array is None else make_tensor(array).tolist() for array in reply.gradients]


class TestConversion:
    @pytest.mark.parametrize("dtype", DTYPES)
    @pytest.mark.parametrize("layout", ["contiguous", "strided", "transposed", "sliced"])
    @pytest.mark.parametrize("shape", [(), (0,), (2, 3, 4)])
    def test_conversion_keeps_every_bit(self, dtype: str, layout: str, shape: tuple[int, ...]) -> None:
        generator = np.random.default_rng(0)
        size = np.dtype("u2" if dtype == "bfloat16" else dtype).itemsize
        bits = generator.integers(0, 256, (int(np.prod(shape)) * size), dtype=np.uint8)
        array = Array(dtype, shape, bits.tobytes())

        tensor = make_tensor(array, layout)

        assert str(tensor.dtype) == f"torch.{dtype}"
        assert read_array(tensor) == array

    def test_each_layout_has_its_own_strides(self) -> None:
        array = read_array(torch.ones(2, 3))

        layouts = ("contiguous", "strided", "transposed", "sliced")
        assert [make_tensor(array, layout).stride() for layout in layouts] == [(3, 1), (6, 2), (1, 2), (5, 1)]


def test_scaler_scales_the_loss_before_the_clip(monkeypatch: pytest.MonkeyPatch) -> None:
    passed = []
    unscale = torch.amp.GradScaler.unscale_

    def look(scaler: torch.amp.GradScaler, optimizer: torch.optim.Optimizer) -> None:
        (parameter,) = optimizer.param_groups[0]["params"]
        passed.append(parameter.grad.tolist())
        unscale(scaler, optimizer)

    monkeypatch.setattr(torch.amp.GradScaler, "unscale_", look)
    gradients = (Gradient("a", read_array(torch.tensor([3.0, 4.0]))),)

    reply = ADAPTER.call(Call(SCALED, gradients, {"clip_norm": 2.5}))

    assert passed == [[3.0 * 2**16, 4.0 * 2**16]]
    assert read_values(reply) == [pytest.approx([1.5, 2.0], rel=1e-6)]


@pytest.mark.parametrize("subject", sorted(name for name, one in SUBJECTS.items() if "compiles" in one.features))
def test_compiled_option_compiles_the_call(subject: str, monkeypatch: pytest.MonkeyPatch) -> None:
    entry, compiling = ADAPTER.entry_points[subject], []

    def clip(passed: Any, options: Mapping[str, Any]) -> torch.Tensor | None:
        compiling.append(torch.compiler.is_compiling())
        return entry.clip(passed, options)

    monkeypatch.setitem(ADAPTER.entry_points, subject, replace(entry, clip=clip))
    options = make_options(subject, 1.0)
    with warnings.catch_warnings():
        # The compiler imports deprecated modules.
        warnings.simplefilter("ignore")
        compiled = ADAPTER.call(Call(subject, make_gradients("float32"), {**options, "compiled": True}))
    alone = ADAPTER.call(Call(subject, make_gradients("float32"), options))

    assert compiling == [True, False]
    for one, other in zip(read_values(compiled), read_values(alone), strict=True):
        assert (one is None) == (other is None)
        np.testing.assert_allclose(np.array(one, float), np.array(other, float), rtol=1e-6)


@pytest.mark.parametrize("subject", list_subjects("single"))
def test_single_tensor_is_passed_without_a_list(subject: str, monkeypatch: pytest.MonkeyPatch) -> None:
    entry, taken = ADAPTER.entry_points[subject], []

    def clip(passed: Any, options: Mapping[str, Any]) -> torch.Tensor | None:
        taken.append(type(passed()))
        return entry.clip(passed, options)

    monkeypatch.setitem(ADAPTER.entry_points, subject, replace(entry, clip=clip))
    alone, options = make_gradients("float32")[:1], make_options(subject, 1.0)
    single = ADAPTER.call(Call(subject, alone, {**options, "as_single": True}))
    listed = ADAPTER.call(Call(subject, alone, options))

    assert taken == [torch.nn.Parameter, list]
    assert (single.gradients, single.norm) == (listed.gradients, listed.norm)
