"""Paddle: `ClipGradByGlobalNorm` called on its own tensors, the reference on NumPy beside it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from workloads import arrays, threshold

import gradclip_spec

paddle = pytest.importorskip("paddle", reason="Paddle is not installed in this environment")


@pytest.mark.parametrize("library", ["gradclip_spec", "Paddle"])
def test_in_place(measure: Callable[..., None], workload: str, clipped: bool, library: str) -> None:
    master, limit = arrays(workload), threshold(workload, clipped)
    grads = [array.copy() for array in master]

    if library == "gradclip_spec":

        def fresh() -> tuple[Any, ...]:
            for grad, array in zip(grads, master, strict=True):
                grad[...] = array
            return (grads,)

        def run(given: Any) -> Any:
            return gradclip_spec.clip_by_global_norm(given, limit, inplace=True)
    else:
        clip = paddle.nn.ClipGradByGlobalNorm(limit)
        parameters = [paddle.create_parameter(list(array.shape), "float32") for array in master]

        def fresh() -> tuple[Any, ...]:
            # Paddle may clip in place, so each round gets tensors of its own.
            return ([(p, paddle.to_tensor(array)) for p, array in zip(parameters, master, strict=True)],)

        def run(given: Any) -> Any:
            return clip(given)[-1][1].numpy()

    measure(
        run,
        fresh,
        peer="paddle.nn.ClipGradByGlobalNorm",
        library=library,
        workload=workload,
        clipped=clipped,
        mode="in place",
        dtype="float32",
    )
