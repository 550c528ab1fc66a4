"""Compare the reference with each peer on the CPU. Each peer runs in a process of its own, which imports it here."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
from measure import Measure
from workloads import SOME, TOO_MANY, WORKLOADS, choose_threshold, has_only_large_tensors, make_arrays

import gradclip_spec
from gradclip_spec import kernels


def _name_mode(mode: str, clipped: bool) -> str:
    return mode if clipped else f"{mode}, nothing to clip"


def _compare_with_numpy(measure: Measure) -> None:
    """Compare with common NumPy code on the same arrays, with and without the compiled loops.

    Measure the memory floor and the first call, too.
    """
    loops = kernels.load_compiled
    for fast in ("", " (without the extra)"):
        for workload in WORKLOADS:
            for clipped in (True, False):
                for mode in ("in place", "functional"):
                    _compare_naive(measure, workload, clipped, mode, fast)
        kernels.load_compiled = lambda: None
    kernels.load_compiled = loops
    for workload in WORKLOADS:
        if measure.quick or has_only_large_tensors(workload):
            _compare_numpy_with_memory_floor(measure, workload)
    for workload in SOME:
        _compare_naive(measure, workload, True, "functional", ", float64", "float64")
        for dtype in ("float32", "float64"):
            for norm_type in (1, 2, np.inf):
                _compare_norms(measure, make_arrays(workload, dtype), norm_type, workload=workload, dtype=dtype)
        _compare_other_operations(measure, workload)
    _compare_norms(
        measure, [np.random.default_rng(1).standard_normal(10_000_000)], 2, workload="1 x 10,000,000", dtype="float64"
    )
    _measure_first_calls(measure)


def _clip_naively(grads: list[Any], clip_norm: float) -> list[Any]:
    """Clip by global norm, as a NumPy user writes it."""
    norm = np.sqrt(sum(np.sum(g**2) for g in grads))
    if norm > clip_norm:
        return [g * (clip_norm / norm) for g in grads]
    return grads


def _clip_naively_in_place(grads: list[Any], clip_norm: float) -> None:
    """Clip into the arrays that are passed."""
    norm = np.sqrt(sum(np.sum(g**2) for g in grads))
    if norm > clip_norm:
        for g in grads:
            np.multiply(g, clip_norm / norm, out=g)


def _compare_naive(
    measure: Measure, workload: str, clipped: bool, mode: str, words: str, dtype: str = "float32"
) -> None:
    master = make_arrays(workload, dtype)
    grads = [array.copy() for array in master]
    limit, inplace = choose_threshold(workload, clipped), mode == "in place"

    def renew() -> None:
        if inplace:
            for grad, array in zip(grads, master, strict=True):
                np.copyto(grad, array)

    measure.compare(
        lambda: gradclip_spec.clip_by_global_norm(grads, limit, inplace=inplace),
        lambda: _clip_naively_in_place(grads, limit) if inplace else _clip_naively(grads, limit),
        renew,
        peer=f"NumPy as people write it{words}",
        workload=workload,
        mode=_name_mode(mode, clipped),
        dtype=dtype,
    )


def _compare_numpy_with_memory_floor(measure: Measure, workload: str) -> None:
    master = np.concatenate(make_arrays(workload), axis=None)
    # Clip and floor use the same memory, because its speed depends on the pages that the system has given out.
    flat, limit = np.empty_like(master), choose_threshold(workload, True)
    grads = np.split(flat, np.cumsum([array.size for array in make_arrays(workload)])[:-1])

    def read_and_scale() -> None:
        # Read the array once and scale it once in place. The factor changes only the signs.
        np.dot(flat, flat)
        np.multiply(flat, np.float32(-1.0), out=flat)

    measure.compare(
        lambda: gradclip_spec.clip_by_global_norm(grads, limit, inplace=True),
        read_and_scale,
        lambda: np.copyto(flat, master),
        peer="memory floor (NumPy)",
        workload=workload,
        mode="in place",
        dtype="float32",
    )


def _compare_norms(measure: Measure, grads: list[Any], norm_type: float, **names: str) -> None:
    def run_theirs() -> Any:
        norms = [np.linalg.norm(x.ravel(), norm_type) for x in grads]
        return np.linalg.norm(np.asarray(norms), norm_type)

    measure.compare(
        lambda: gradclip_spec.global_norm(grads, norm_type=norm_type),
        run_theirs,
        peer="np.linalg.norm",
        mode=f"norm, p = {norm_type:g}",
        **names,
    )


def _compare_other_operations(measure: Measure, workload: str) -> None:
    grads = make_arrays(workload)
    operations: dict[str, tuple[Callable[[], Any], Callable[[], Any]]] = {
        "by value": (
            lambda: gradclip_spec.clip_by_value(grads, 0.5),
            lambda: [np.clip(x, -0.5, 0.5) for x in grads],
        ),
        "by norm": (
            lambda: gradclip_spec.clip_by_norm(grads, 1.0),
            lambda: [_clip_naively([x], 1.0)[0] for x in grads],
        ),
    }
    for operation, (ours, theirs) in operations.items():
        peer = f"NumPy as people write it, {operation}"
        measure.compare(ours, theirs, peer=peer, workload=workload, mode="functional", dtype="float32")


def _measure_first_calls(measure: Measure) -> None:
    """Time the import of the reference and the first call of a process. Do not time the import of NumPy."""
    beginning = "import numpy, time; x = numpy.ones({}, numpy.float32); t = time.perf_counter(); import gradclip_spec; "
    call = "gradclip_spec.clip_by_global_norm([x], 1.0); "
    for what, size, program in (
        ("import", 1, ""),
        ("first call", 10, call),
        ("first call that compiled loops serve", 100_000, call),
    ):
        command = [sys.executable, "-c", beginning.format(size) + program + "print(time.perf_counter() - t)"]

        def start(command: list[str] = command) -> float:
            return float(subprocess.run(command, capture_output=True, text=True, check=True).stdout)

        # The first process compiles the loops and caches them on disk.
        start()
        measure.record(start, peer="seconds of a process", workload=what, mode="", dtype="float32")


def _compare_with_torchs_clips(measure: Measure) -> None:
    """Compare with torch's clips on the same tensors, with the same number of threads on every machine."""
    import torch

    torch.set_num_threads(2)
    for workload in WORKLOADS:
        for dtype in ("float32", "float16", "bfloat16"):
            _compare_torch_norm(measure, workload, dtype, True)
        _compare_torch_norm(measure, workload, "float32", False)
    for workload in SOME:
        _compare_torch_norm(measure, workload, "float64", True)
        for norm_type in (1.0, float("inf")):
            _compare_torch_norm(measure, workload, "float32", True, norm_type)
        compare_with_torch(
            measure,
            list(map(torch.from_numpy, make_arrays(workload))),
            lambda grads: gradclip_spec.clip_by_value(grads, 0.5, inplace=True),
            lambda parameters: torch.nn.utils.clip_grad_value_(parameters, 0.5, foreach=True),
            peer="torch clip_grad_value_ (foreach)",
            workload=workload,
            mode="in place",
        )
    for workload in WORKLOADS:
        if measure.quick or has_only_large_tensors(workload):
            _compare_torch_with_memory_floor(measure, workload)


def compare_with_torch(
    measure: Measure, gradients: list[Any], ours: Callable[[Any], Any], theirs: Callable[[Any], Any], **names: str
) -> None:
    """Compare a clip of gradients in place with torch's, which takes parameters. Wait for a GPU if they are on one."""
    import torch

    parameters = [torch.nn.Parameter(torch.empty_like(x)) for x in gradients]
    for parameter in parameters:
        parameter.grad = torch.empty_like(parameter)
    wait = torch.cuda.synchronize if gradients[0].is_cuda else lambda: None

    def restore() -> None:
        torch._foreach_copy_([parameter.grad for parameter in parameters], gradients)
        wait()

    def run_ours() -> None:
        ours([parameter.grad for parameter in parameters])
        wait()

    def run_theirs() -> None:
        theirs(parameters)
        wait()

    dtype = str(gradients[0].dtype).removeprefix("torch.")
    measure.compare(run_ours, run_theirs, restore, dtype=dtype, **names)


def _compare_torch_norm(measure: Measure, workload: str, dtype: str, clipped: bool, norm_type: float = 2.0) -> None:
    import torch

    limit = choose_threshold(workload, clipped) if norm_type == 2 else 0.5
    other = "" if norm_type == 2 else f", p = {norm_type:g}"
    compare_with_torch(
        measure,
        [torch.from_numpy(array).to(getattr(torch, dtype)) for array in make_arrays(workload)],
        lambda grads: gradclip_spec.clip_by_global_norm(grads, limit, norm_type=norm_type, inplace=True),
        lambda parameters: torch.nn.utils.clip_grad_norm_(parameters, limit, norm_type=norm_type, foreach=True),
        peer="torch clip_grad_norm_ (foreach)" + (", other norms and float64" if other or dtype == "float64" else ""),
        workload=workload,
        mode=_name_mode("in place", clipped) + other,
    )


def _compare_torch_with_memory_floor(measure: Measure, workload: str) -> None:
    import torch

    tensors = [torch.from_numpy(array) for array in make_arrays(workload)]
    master = torch.cat([tensor.reshape(-1) for tensor in tensors])
    # Clip and floor use the same memory, because its speed depends on the pages that the system has given out.
    flat, limit = torch.empty_like(master), choose_threshold(workload, True)
    grads = list(flat.split([tensor.numel() for tensor in tensors]))

    def read_and_scale() -> None:
        # Read the array once and scale it once in place. The factor changes only the signs.
        torch.dot(flat, flat)
        flat.mul_(-1.0)

    measure.compare(
        lambda: gradclip_spec.clip_by_global_norm(grads, limit, inplace=True),
        read_and_scale,
        lambda: flat.copy_(master),
        peer="memory floor (torch)",
        workload=workload,
        mode="in place",
        dtype="float32",
    )


def _compare_with_optaxs_clip(measure: Measure) -> None:
    """Compare with Optax under `jax.jit`: the run time and the compile time."""
    import jax

    for workload in WORKLOADS.keys() - TOO_MANY:
        grads = [jax.numpy.asarray(array) for array in make_arrays(workload)]
        names = {"workload": workload, "dtype": "float32"}
        _compare_compile_time(measure, grads, choose_threshold(workload, True), **names)
        for clipped in (True, False):
            limit = choose_threshold(workload, clipped)
            mode = _name_mode("functional", clipped)
            compare_with_optax(measure, grads, limit, peer="optax.clip_by_global_norm (jit)", mode=mode, **names)


def compare_with_optax(measure: Measure, grads: list[Any], limit: float, **names: str) -> None:
    """Compare a compiled clip with Optax's."""
    import jax

    ours, theirs = (jax.jit(clip).lower(grads).compile() for clip in _make_clips_of_jax(limit))
    # JAX returns before it has computed the result.
    measure.compare(
        lambda: jax.block_until_ready(ours(grads)),
        lambda: jax.block_until_ready(theirs(grads)),
        **names,
    )


def _compare_compile_time(measure: Measure, grads: list[Any], limit: float, **names: str) -> None:
    import jax

    def compile_clip(index: int) -> None:
        # A function that was compiled before is not compiled again, so each round makes a new one.
        jax.jit(_make_clips_of_jax(limit)[index]).lower(grads).compile()

    measure.compare(
        lambda: compile_clip(0),
        lambda: compile_clip(1),
        jax.clear_caches,
        peer="optax.clip_by_global_norm (compile time)",
        mode="functional",
        **names,
    )


def _make_clips_of_jax(limit: float) -> tuple[Callable[[Any], Any], Callable[[Any], Any]]:
    """Return the clip of the reference, and Optax's."""
    import optax

    transform = optax.clip_by_global_norm(limit)
    return (
        lambda grads: gradclip_spec.clip_by_global_norm(grads, limit)[0],
        lambda grads: transform.update(grads, transform.init(grads))[0],
    )


def _compare_with_tensorflows_clip(measure: Measure) -> None:
    """Compare TensorFlow's clip in a `tf.function` on its own tensors with the reference on NumPy arrays."""
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    import tensorflow as tf

    def compare(workload: str, clipped: bool) -> None:
        grads, limit = make_arrays(workload), choose_threshold(workload, clipped)
        tensors = [tf.constant(array) for array in grads]
        function = tf.function(lambda items: tf.clip_by_global_norm(items, limit))

        def run_theirs() -> Any:
            clipped_tensors, norm = function(tensors)
            return norm.numpy(), clipped_tensors[-1].numpy()

        measure.compare(
            lambda: gradclip_spec.clip_by_global_norm(grads, limit),
            run_theirs,
            peer="tf.clip_by_global_norm (tf.function)",
            workload=workload,
            mode=_name_mode("functional", clipped),
            dtype="float32",
        )

    for workload in WORKLOADS.keys() - TOO_MANY:
        for clipped in (True, False):
            compare(workload, clipped)


def _compare_with_paddles_clip(measure: Measure) -> None:
    """Compare Paddle's `ClipGradByGlobalNorm` on its own tensors with the reference on NumPy arrays."""
    import paddle

    def compare(workload: str, clipped: bool) -> None:
        master, limit = make_arrays(workload), choose_threshold(workload, clipped)
        grads = [array.copy() for array in master]
        clip = paddle.nn.ClipGradByGlobalNorm(limit)
        parameters = [paddle.create_parameter(list(array.shape), "float32") for array in master]
        pairs: list[Any] = []

        def renew() -> None:
            for grad, array in zip(grads, master, strict=True):
                grad[...] = array
            # Paddle may clip in place, so each round gets new tensors.
            pairs[:] = [(p, paddle.to_tensor(array)) for p, array in zip(parameters, master, strict=True)]

        measure.compare(
            lambda: gradclip_spec.clip_by_global_norm(grads, limit, inplace=True),
            lambda: clip(pairs)[-1][1].numpy(),  # noqa: PLW0108 - without the lambda, the clip would run here once
            renew,
            peer="paddle.nn.ClipGradByGlobalNorm",
            workload=workload,
            mode=_name_mode("in place", clipped),
            dtype="float32",
        )

    for workload in WORKLOADS:
        for clipped in (True, False):
            compare(workload, clipped)


#: The function that makes all comparisons with a peer.
PEERS: dict[str, Callable[[Measure], None]] = {
    "numpy": _compare_with_numpy,
    "torch": _compare_with_torchs_clips,
    "optax": _compare_with_optaxs_clip,
    "tensorflow": _compare_with_tensorflows_clip,
    "paddle": _compare_with_paddles_clip,
}
