"""Make the clips of Keras's optimizers on JAX do nothing."""

from __future__ import annotations

import os

os.environ["KERAS_BACKEND"] = "jax"

import keras
import keras_clips

keras.optimizers.Optimizer._clip_gradients = keras_clips.leave

from gradclip_adapters.frameworks.keras import use_jax  # noqa: E402 - it must find the method replaced

adapter = use_jax()
