"""Test that the JAX adapter compiles only the calls that ask for it. Needs JAX."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np
import pytest
from jax.example_libraries.optimizers import clip_grads

from gradclip_adapters.contract import Array, Call, Gradient
from gradclip_adapters.registry import resolve

ADAPTER = resolve("jax")
GRADIENT = Gradient("g", Array.of(np.array([3.0, 4.0], np.float32)))


def test_only_compiled_calls_are_traced(monkeypatch: pytest.MonkeyPatch) -> None:
    traced = []

    def watch(tree: Any, max_norm: Any) -> Any:
        traced.append(isinstance(tree[0], jax.core.Tracer))
        return clip_grads(tree, max_norm)

    monkeypatch.setattr("jax.example_libraries.optimizers.clip_grads", watch)
    for mode, more in (("[eager]", {}), ("[eager]", {"compiled": True}), ("[jit]", {})):
        name = f"jax.example_libraries.optimizers.clip_grads{mode}"
        ADAPTER.call(Call(name, (GRADIENT,), {"clip_norm": 1.0, **more}))

    assert traced == [False, True, True]
