"""Make the clips of Keras's optimizers on TensorFlow do nothing."""

from __future__ import annotations

import os

os.environ["KERAS_BACKEND"] = "tensorflow"

import keras
import keras_clips

keras.optimizers.Optimizer._clip_gradients = keras_clips.leave

from gradclip_adapters.frameworks.keras import use_tensorflow  # noqa: E402 - it must find the method replaced

adapter = use_tensorflow()
