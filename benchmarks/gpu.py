"""Compare the reference with its peers on a GPU: `python benchmarks/gpu.py build/gpu/benchmarks.json --device cuda`.

The peers are torch's clips with `foreach=True`, a plain loop over CuPy arrays, and Optax under `jax.jit`. Each time
includes the wait for the device. A peer that is not installed is left out. `--device cpu --quick` tries the program.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

from measure import Comparison, Measure
from peers import compare_with_optax, compare_with_torch
from workloads import TOO_MANY, WORKLOADS, choose_threshold, make_arrays, shrink

import gradclip_spec

#: From this number of elements on, the memory decides the time. Below, the calls do.
LARGE = 1_000_000


def main() -> int:
    """Measure all peers, print the table, and write the numbers."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--seconds", type=float, default=0.4, help="how long one comparison takes")
    options = parser.parse_args()
    sizes = {workload: sum(map(math.prod, make_shapes())) for workload, make_shapes in WORKLOADS.items()}
    if options.quick:
        shrink()
    measure = Measure(options.seconds, options.quick)
    for peer, run in {"torch": run_torch, "cupy": run_cupy, "optax": run_optax}.items():
        reason = explain_absence(peer, options.device)
        if reason:
            print(f"{peer} is not measured: {reason}")
        else:
            run(measure, options.device)
    met = 0
    for each in measure.found:
        wanted = choose_wanted_ratio(each, sizes[each.workload])
        met += each.ratio <= wanted
        names = f"{each.peer:24} {each.workload:16} {each.dtype:9} {each.mode:26}"
        print(f"{names} {each.ours * 1e6:12.1f} us, ratio {each.ratio:5.2f}, wanted {wanted}")
    print(f"{len(measure.found)} comparisons, {met} within the wanted ratio")
    options.out.write_text(json.dumps([asdict(each) for each in measure.found], indent=1) + "\n", encoding="utf-8")
    return 0


def explain_absence(peer: str, device: str) -> str:
    """Return why a peer cannot be measured on a device, or an empty text."""
    try:
        if peer == "torch":
            import torch

            torch.zeros(1, device=device)
        elif peer == "cupy":
            import cupy

            cupy.zeros(1)
        else:
            import jax
            import optax  # noqa: F401 - only its presence matters here

            jax.devices(device)
    except Exception as error:  # noqa: BLE001 - a library may raise anything if its device is missing
        return f"{type(error).__name__}: {error}"
    return ""


def choose_wanted_ratio(comparison: Comparison, size: int) -> float:
    """Return the largest wanted ratio of the times."""
    if comparison.peer.startswith("optax"):
        return 1.12
    if comparison.peer.startswith("cupy"):
        return 0.8
    if size < LARGE:
        return 1.1
    return 0.5 if "nothing" in comparison.mode else 0.9


def run_torch(measure: Measure, device: str) -> None:
    """Compare with torch's clips of the gradients of parameters."""
    import torch

    for workload in WORKLOADS:
        arrays = make_arrays(workload)
        for dtype in (torch.float32, torch.bfloat16):
            gradients = [torch.from_numpy(array).to(device, dtype) for array in arrays]
            for clipped in (True, False):
                limit = choose_threshold(workload, clipped)
                compare_with_torch(
                    measure,
                    gradients,
                    lambda grads, limit=limit: gradclip_spec.clip_by_global_norm(grads, limit, inplace=True),
                    lambda parameters, limit=limit: torch.nn.utils.clip_grad_norm_(parameters, limit, foreach=True),
                    workload=workload,
                    peer="torch clip_grad_norm_",
                    mode="in place" if clipped else "in place, nothing to clip",
                )
        compare_with_torch(
            measure,
            [torch.from_numpy(array).to(device) for array in arrays],
            lambda grads: gradclip_spec.clip_by_value(grads, 0.5, inplace=True),
            lambda parameters: torch.nn.utils.clip_grad_value_(parameters, 0.5, foreach=True),
            workload=workload,
            peer="torch clip_grad_value_",
            mode="in place",
        )


def run_cupy(measure: Measure, device: str) -> None:
    """Compare with a loop over CuPy arrays, as people write it."""
    import cupy

    del device
    wait = cupy.cuda.get_current_stream().synchronize

    def clip_in_a_loop(arrays: list[Any], limit: float) -> None:
        norm = cupy.sqrt(sum(cupy.sum(cupy.square(x)) for x in arrays))
        coefficient = cupy.minimum(limit / norm, 1.0).astype(cupy.float32)
        for x in arrays:
            cupy.multiply(x, coefficient, out=x)

    for workload in WORKLOADS:
        gradients = [cupy.asarray(array) for array in make_arrays(workload)]
        arrays, limit = [x.copy() for x in gradients], choose_threshold(workload, True)

        def restore(arrays: Any = arrays, gradients: Any = gradients) -> None:
            for x, values in zip(arrays, gradients, strict=True):
                x[...] = values
            wait()

        def run_ours(arrays: Any = arrays, limit: float = limit) -> None:
            gradclip_spec.clip_by_global_norm(arrays, limit, inplace=True)
            wait()

        def run_theirs(arrays: Any = arrays, limit: float = limit) -> None:
            clip_in_a_loop(arrays, limit)
            wait()

        names = {"peer": "cupy, a plain loop", "workload": workload, "dtype": "float32", "mode": "in place"}
        measure.compare(run_ours, run_theirs, restore, **names)


def run_optax(measure: Measure, device: str) -> None:
    """Compare with Optax's transformation, both compiled."""
    import jax

    for workload in WORKLOADS.keys() - TOO_MANY:
        grads = [jax.device_put(array, jax.devices(device)[0]) for array in make_arrays(workload)]
        names = {"peer": "optax clip_by_global_norm", "workload": workload, "dtype": "float32", "mode": "functional"}
        compare_with_optax(measure, grads, choose_threshold(workload, True), **names)


if __name__ == "__main__":
    sys.exit(main())
