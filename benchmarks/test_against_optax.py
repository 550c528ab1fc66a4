"""Compare the reference with `optax.clip_by_global_norm` under `jax.jit`: the time to run and to compile."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from workloads import arrays, threshold

import gradclip_spec

jax = pytest.importorskip("jax", reason="JAX is not installed in this environment")
optax = pytest.importorskip("optax", reason="Optax is not installed in this environment")


def _ours(limit: float) -> Callable[[Any], Any]:
    return lambda grads: gradclip_spec.clip_by_global_norm(grads, limit)[0]


def _theirs(limit: float) -> Callable[[Any], Any]:
    transform = optax.clip_by_global_norm(limit)
    return lambda grads: transform.update(grads, transform.init(grads))[0]


def test_run(compare: Callable[..., None], workload: str, clipped: bool) -> None:
    if workload == "10,000 x 100":
        pytest.skip("XLA takes minutes to compile a function of 10,000 arrays, Optax's too")
    grads = [jax.numpy.asarray(array) for array in arrays(workload)]
    limit = threshold(workload, clipped)
    ours, theirs = (jax.jit(clip(limit)).lower(grads).compile() for clip in (_ours, _theirs))
    compare(
        # JAX returns before it has computed the result.
        lambda: jax.block_until_ready(ours(grads)),
        lambda: jax.block_until_ready(theirs(grads)),
        peer="optax.clip_by_global_norm (jit)",
        workload=workload,
        clipped=clipped,
        mode="functional",
        dtype="float32",
    )


def test_compile(compare: Callable[..., None], workload: str) -> None:
    if workload == "10,000 x 100":
        pytest.skip("XLA takes minutes to compile a function of 10,000 arrays, Optax's too")
    grads = [jax.ShapeDtypeStruct(array.shape, array.dtype) for array in arrays(workload)]
    limit = threshold(workload, True)
    compare(
        lambda: jax.jit(_ours(limit)).lower(grads).compile(),
        lambda: jax.jit(_theirs(limit)).lower(grads).compile(),
        jax.clear_caches,
        rounds=3,
        peer="optax.clip_by_global_norm (compile time)",
        workload=workload,
        clipped=True,
        mode="functional",
        dtype="float32",
    )
