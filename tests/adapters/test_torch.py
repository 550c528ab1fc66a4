"""Test the tensors that the torch adapter makes, and how it passes them to torch. Needs torch."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from gradclip_adapters.contract import Array, Call, Gradient, Reply, Unsupported
from gradclip_adapters.frameworks.torch import TorchAdapter, make_tensor, read_array
from gradclip_adapters.frameworks.torch_based import parameters

ADAPTER = TorchAdapter()
#: The entry points of one process. `test_distributed_engines` tests the others.
ENTRY_POINTS = {entry.name: entry for entry in ADAPTER.subjects() if "distributed" not in entry.features}


def test_tensors_are_made_on_the_chosen_device(monkeypatch: pytest.MonkeyPatch) -> None:
    # Tensors on this device have no values, but every machine has it.
    monkeypatch.setattr(parameters, "_device", torch.device("meta"))
    array = Array.of(np.ones((4, 6), np.float32))

    for layout in ("contiguous", "strided", "transposed", "sliced"):
        tensor = make_tensor(array, layout)
        assert (tensor.device.type, tensor.shape) == ("meta", (4, 6))
    with pytest.raises(Unsupported, match="a buffer of its own"):
        make_tensor(array, "packed")
    entry_points = TorchAdapter.subjects(ADAPTER)
    assert not any({"packed", "distributed"} & {*entry_point.features} for entry_point in entry_points)


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


def test_gradient_of_another_dtype_than_its_parameter_is_refused() -> None:
    gradient = Gradient("", Array.of(np.ones(2, np.float16)), parameter=Array.of(np.ones(2, np.float32)))

    with pytest.raises(Unsupported, match="torch refuses a gradient of"):
        parameters.make_parameter(gradient)
    with pytest.raises(RuntimeError):
        torch.nn.Parameter(torch.ones(2)).grad = torch.ones(2, dtype=torch.float16)


def read_values(reply: Reply) -> list[Any]:
    return [None if array is None else make_tensor(array).tolist() for array in reply.gradients]


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
@pytest.mark.parametrize("layout", ["contiguous", "strided", "transposed", "sliced"])
@pytest.mark.parametrize("shape", [(), (0,), (2, 3, 4)])
def test_conversion_keeps_every_bit(dtype: str, layout: str, shape: tuple[int, ...]) -> None:
    generator = np.random.default_rng(0)
    size = np.dtype("u2" if dtype == "bfloat16" else dtype).itemsize
    bits = generator.integers(0, 256, (int(np.prod(shape)) * size), dtype=np.uint8)
    array = Array(dtype, shape, bits.tobytes())

    tensor = make_tensor(array, layout)

    assert str(tensor.dtype) == f"torch.{dtype}"
    assert read_array(tensor) == array


def test_each_layout_has_its_own_strides() -> None:
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

    name = "torch.nn.utils.clip_grad_norm_ then torch.amp.GradScaler.step"
    reply = ADAPTER.call(Call(name, gradients, {"clip_norm": 2.5}))

    assert passed == [[3.0 * 2**16, 4.0 * 2**16]]
    assert read_values(reply) == [pytest.approx([1.5, 2.0], rel=1e-6)]


#: For each option: the feature that it needs, what a clip sees of its call, and that with and without the option.
SEEN: dict[str, tuple[str, Callable[[Any], Any], list[Any]]] = {
    "compiled": ("compiles", lambda passed: torch.compiler.is_compiling(), [True, False]),
    "as_single": ("single", lambda passed: type(passed()), [torch.nn.Parameter, list]),
}


@pytest.mark.parametrize(
    ("option", "entry_point"),
    [
        (option, name)
        for option, (feature, *_) in SEEN.items()
        for name in ENTRY_POINTS
        if feature in ENTRY_POINTS[name].features
    ],
)
def test_clip_is_called_as_the_option_says(option: str, entry_point: str, monkeypatch: pytest.MonkeyPatch) -> None:
    _, look, expected = SEEN[option]
    entry, seen = ADAPTER.entry_points[entry_point], []

    def clip(passed: Any, options: Mapping[str, Any]) -> torch.Tensor | None:
        seen.append(look(passed))
        return entry.clip(passed, options)

    monkeypatch.setitem(ADAPTER.entry_points, entry_point, replace(entry, clip=clip))
    gradients = (Gradient("a", read_array(torch.tensor([[3.0, -4.0, 0.5], [0.0, -0.0, 12.0]]))),)
    options = {"max" if "value" in entry_point else "clip_norm": 1.0}
    with warnings.catch_warnings():
        # The compiler imports deprecated modules.
        warnings.simplefilter("ignore")
        asked = ADAPTER.call(Call(entry_point, gradients, {**options, option: True}))
    alone = ADAPTER.call(Call(entry_point, gradients, options))

    assert seen == expected
    np.testing.assert_allclose(*(read_values(reply) for reply in (asked, alone)), rtol=1e-6)
    assert (asked.norm is None) == (alone.norm is None)
