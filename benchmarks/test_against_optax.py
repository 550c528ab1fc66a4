"""JAX: `optax.clip_by_global_norm` and the reference under `jax.jit`: the time to run, and the time to compile."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from workloads import arrays, threshold

import gradclip_spec

jax = pytest.importorskip("jax", reason="JAX is not installed in this environment")
optax = pytest.importorskip("optax", reason="Optax is not installed in this environment")


def _clip(library: str, limit: float) -> Callable[[Any], Any]:
    if library == "gradclip_spec":
        return lambda grads: gradclip_spec.clip_by_global_norm(grads, limit)[0]
    transform = optax.clip_by_global_norm(limit)
    return lambda grads: transform.update(grads, transform.init(grads))[0]


@pytest.mark.parametrize("library", ["gradclip_spec", "Optax"])
def test_run(measure: Callable[..., None], workload: str, clipped: bool, library: str) -> None:
    if workload == "10,000 x 100":
        pytest.skip("XLA takes minutes to compile a function of 10,000 arrays, Optax's too")
    grads = [jax.numpy.asarray(array) for array in arrays(workload)]
    compiled = jax.jit(_clip(library, threshold(workload, clipped))).lower(grads).compile()

    def run() -> None:
        # JAX answers before it has computed.
        jax.block_until_ready(compiled(grads))

    measure(
        run,
        lambda: (),
        peer="optax.clip_by_global_norm (jit)",
        library=library,
        workload=workload,
        clipped=clipped,
        mode="functional",
        dtype="float32",
    )


@pytest.mark.parametrize("library", ["gradclip_spec", "Optax"])
def test_compile(benchmark: Any, library: str) -> None:
    workload = "1,000 x 1,000"
    grads = [jax.numpy.asarray(array) for array in arrays(workload)]
    limit = threshold(workload, True)

    def compile_it() -> None:
        jax.clear_caches()
        jax.jit(_clip(library, limit)).lower(grads).compile()

    benchmark.extra_info.update(
        peer="optax.clip_by_global_norm (compile time)",
        library=library,
        workload=workload,
        clipped="True",
        mode="functional",
        dtype="float32",
    )
    benchmark.pedantic(compile_it, rounds=3, warmup_rounds=1)
