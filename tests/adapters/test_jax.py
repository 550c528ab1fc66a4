"""Test that the adapters on JAX compile only the calls that ask for it. Needs JAX."""

from __future__ import annotations

import importlib
import operator
from typing import Any

import jax
import numpy as np
import pytest

from gradclip_adapters.contract import Array, Call, Gradient
from gradclip_adapters.registry import resolve

GRADIENT = Gradient("g", Array.of(np.array([3.0, 4.0], np.float32)))


#: Adapters, their entry points, the functions below these that get the tree, and the options with the threshold.
JAX = ("jax", "jax.example_libraries.optimizers.clip_grads", "example_libraries.optimizers.clip_grads", "clip_norm")
BY_VALUE = ("optax", "optax.clip", "tree.clip", "max")
BY_NORM = ("optax", "optax.clip_by_global_norm", "tree.norm", "clip_norm")


@pytest.mark.parametrize(
    ("adapter", "name", "function", "threshold"),
    [pytest.param(*row, marks=pytest.mark.array_library(row[0])) for row in (JAX, BY_VALUE, BY_NORM)],
)
def test_only_compiled_calls_are_traced(
    adapter: str, name: str, function: str, threshold: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    resolved, path = resolve(adapter), f"{adapter}.{function}"
    original, traced = operator.attrgetter(function)(importlib.import_module(adapter)), []

    def watch(tree: Any, *arguments: Any) -> Any:
        traced.append(isinstance(jax.tree.leaves(tree)[0], jax.core.Tracer))
        return original(tree, *arguments)

    monkeypatch.setattr(path, watch)
    for mode, more in (("[eager]", {}), ("[eager]", {"compiled": True}), ("[jit]", {})):
        resolved.call(Call(name + mode, (GRADIENT,), {threshold: 1.5, **more}))

    assert traced == [False, True, True]
