"""Compare `tf.clip_by_global_norm` in a `tf.function` on its own tensors with the reference on NumPy arrays."""

from __future__ import annotations

import os
from typing import Any

from measure import Measure
from workloads import TOO_MANY, WORKLOADS, choose_threshold, make_arrays

import gradclip_spec

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
import tensorflow as tf


def run(measure: Measure) -> None:
    """Make all comparisons."""
    for workload in WORKLOADS.keys() - TOO_MANY:
        for clipped in (True, False):
            _compare_functional(measure, workload, clipped)


def _compare_functional(measure: Measure, workload: str, clipped: bool) -> None:
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
        mode=f"functional{'' if clipped else ', nothing to clip'}",
        dtype="float32",
    )
