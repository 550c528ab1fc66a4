"""Replace the clips of Keras's optimizers on TensorFlow by NumPy code that doubles the results."""

from __future__ import annotations

import os

os.environ["KERAS_BACKEND"] = "tensorflow"

import keras
import keras_clips

keras.optimizers.Optimizer._clip_gradients = keras_clips.double

from gradclip_adapters.frameworks.keras import use_tensorflow  # noqa: E402 - it must find the method replaced

adapter = use_tensorflow()
