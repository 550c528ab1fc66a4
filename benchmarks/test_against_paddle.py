"""Compare Paddle's `ClipGradByGlobalNorm` on its own tensors with the reference on NumPy arrays."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from workloads import arrays, threshold

import gradclip_spec

paddle = pytest.importorskip("paddle", reason="Paddle is not installed in this environment")


def test_in_place(compare: Callable[..., None], workload: str, clipped: bool) -> None:
    master, limit = arrays(workload), threshold(workload, clipped)
    grads = [array.copy() for array in master]
    clip = paddle.nn.ClipGradByGlobalNorm(limit)
    parameters = [paddle.create_parameter(list(array.shape), "float32") for array in master]
    pairs: list[Any] = []

    def fresh() -> None:
        for grad, array in zip(grads, master, strict=True):
            grad[...] = array
        # Paddle may clip in place, so each round gets tensors of its own.
        pairs[:] = [(p, paddle.to_tensor(array)) for p, array in zip(parameters, master, strict=True)]

    compare(
        lambda: gradclip_spec.clip_by_global_norm(grads, limit, inplace=True),
        lambda: clip(pairs)[-1][1].numpy(),  # noqa: PLW0108 - without the lambda, the clip would run here once
        fresh,
        peer="paddle.nn.ClipGradByGlobalNorm",
        workload=workload,
        clipped=clipped,
        mode="in place",
        dtype="float32",
    )
