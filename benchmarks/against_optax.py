"""Compare `optax.clip_by_global_norm` with the reference under `jax.jit`: the run time and the compile time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import optax
from measure import Measure
from workloads import TOO_MANY, WORKLOADS, choose_threshold, make_arrays

import gradclip_spec


def run(measure: Measure) -> None:
    """Make all comparisons."""
    for workload in WORKLOADS.keys() - TOO_MANY:
        grads = [jax.numpy.asarray(array) for array in make_arrays(workload)]
        _compare_compile_time(measure, workload, grads)
        for clipped in (True, False):
            _compare_run_time(measure, workload, grads, clipped)


def _make_ours(limit: float) -> Callable[[Any], Any]:
    return lambda grads: gradclip_spec.clip_by_global_norm(grads, limit)[0]


def _make_theirs(limit: float) -> Callable[[Any], Any]:
    transform = optax.clip_by_global_norm(limit)
    return lambda grads: transform.update(grads, transform.init(grads))[0]


def _compare_run_time(measure: Measure, workload: str, grads: list[Any], clipped: bool) -> None:
    limit = choose_threshold(workload, clipped)
    ours, theirs = (jax.jit(clip(limit)).lower(grads).compile() for clip in (_make_ours, _make_theirs))
    measure.compare(
        # JAX returns before it has computed the result.
        lambda: jax.block_until_ready(ours(grads)),
        lambda: jax.block_until_ready(theirs(grads)),
        peer="optax.clip_by_global_norm (jit)",
        workload=workload,
        mode=f"functional{'' if clipped else ', nothing to clip'}",
        dtype="float32",
    )


def _compare_compile_time(measure: Measure, workload: str, grads: list[Any]) -> None:
    limit = choose_threshold(workload, True)
    measure.compare(
        lambda: jax.jit(_make_ours(limit)).lower(grads).compile(),
        lambda: jax.jit(_make_theirs(limit)).lower(grads).compile(),
        jax.clear_caches,
        peer="optax.clip_by_global_norm (compile time)",
        workload=workload,
        mode="functional",
        dtype="float32",
    )
