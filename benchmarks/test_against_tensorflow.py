"""Compare `tf.clip_by_global_norm` in a `tf.function` on its own tensors with the reference on NumPy arrays."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import pytest
from workloads import arrays, threshold

import gradclip_spec

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
tf = pytest.importorskip("tensorflow", reason="TensorFlow is not installed in this environment")


def test_functional(compare: Callable[..., None], workload: str, clipped: bool) -> None:
    if workload == "10,000 x 100":
        pytest.skip("TensorFlow takes minutes to trace a function of 10,000 tensors")
    grads, limit = arrays(workload), threshold(workload, clipped)

    def ours() -> Any:
        return gradclip_spec.clip_by_global_norm(grads, limit)

    tensors = [tf.constant(array) for array in grads]
    function = tf.function(lambda items: tf.clip_by_global_norm(items, limit))

    def theirs() -> Any:
        clipped_tensors, norm = function(tensors)
        return norm.numpy(), clipped_tensors[-1].numpy()

    compare(
        ours,
        theirs,
        peer="tf.clip_by_global_norm (tf.function)",
        workload=workload,
        clipped=clipped,
        mode="functional",
        dtype="float32",
    )
