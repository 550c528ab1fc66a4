"""Test in which mode, and with which mask and bounds, the Optax adapter calls Optax. Needs Optax."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np
import optax
import pytest

from gradclip_adapters.contract import Array, Call, Gradient, Unsupported
from gradclip_adapters.frameworks.optax import OptaxAdapter

ADAPTER = OptaxAdapter()


def make_gradients(dtype: str) -> tuple[Gradient, ...]:
    return (Gradient("g", Array.of(np.array([3.0, -4.0], dtype))), Gradient("none", None))


@pytest.mark.parametrize("name", ["clip_by_global_norm", "adaptive_grad_clip"])
@pytest.mark.parametrize("mode", ["eager", "jit"])
def test_mask_may_be_a_function(name: str, mode: str, monkeypatch: pytest.MonkeyPatch) -> None:
    original, masks = optax.masked, []

    def watch(transformation: Any, mask: Any) -> Any:
        masks.append(mask)
        return original(transformation, mask)

    monkeypatch.setattr(optax, "masked", watch)
    options = {"clip_factor": 0.5} if name == "adaptive_grad_clip" else {"clip_norm": 1.5}
    parameter = Array.of(np.array([1.0, 2.0], np.float32)) if name == "adaptive_grad_clip" else None
    values = [Array.of(np.array(one, np.float32)) for one in ([3.0, 4.0], [6.0, 8.0])]
    gradients = tuple(
        Gradient(f"g{number}", one, need_clip=number == 0, parameter=parameter) for number, one in enumerate(values)
    )

    replies = [
        ADAPTER.call(Call(f"optax.{name}[{title}]", gradients, options)) for title in (f"{mode}, mask function", mode)
    ]

    assert [callable(mask) for mask in masks] == [True, False]
    assert replies[0].gradients == replies[1].gradients
    assert [old == new for old, new in zip(values, replies[0].gradients, strict=True)] == [False, True]


@pytest.mark.parametrize("mode", ["eager", "jit"])
def test_arrays_of_64_bits_may_be_off(mode: str, monkeypatch: pytest.MonkeyPatch) -> None:
    original, seen, before = optax.tree.norm, [], jax.config.jax_enable_x64

    def watch(tree: Any) -> Any:
        seen.append(jax.numpy.arange(1.0).dtype.name)
        return original(tree)

    monkeypatch.setattr(optax.tree, "norm", watch)
    for title in (mode, f"{mode}, without 64 bits"):
        entry_point = f"optax.clip_by_global_norm[{title}]"
        ADAPTER.call(Call(entry_point, make_gradients("float32"), {"clip_norm": 1.5}))

    assert seen == ["float64", "float32"]
    assert jax.config.jax_enable_x64 == before
    with pytest.raises(Unsupported, match="no arrays of 64 bits"):
        ADAPTER.call(Call(entry_point, make_gradients("float64"), {"clip_norm": 1.5}))
