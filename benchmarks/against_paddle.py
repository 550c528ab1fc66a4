"""Compare Paddle's `ClipGradByGlobalNorm` on its own tensors with the reference on NumPy arrays."""

from __future__ import annotations

from typing import Any

import paddle
from measure import Measure
from workloads import WORKLOADS, choose_threshold, make_arrays

import gradclip_spec


def run(measure: Measure) -> None:
    """Make all comparisons."""
    for workload in WORKLOADS:
        for clipped in (True, False):
            _compare_in_place(measure, workload, clipped)


def _compare_in_place(measure: Measure, workload: str, clipped: bool) -> None:
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
        mode=f"in place{'' if clipped else ', nothing to clip'}",
        dtype="float32",
    )
