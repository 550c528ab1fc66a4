"""The threshold becomes zero in float32, and so do gradients of float64.

Prints:
    [0.0, 0.0]
"""

import os

os.environ["KERAS_BACKEND"] = "torch"
import keras
import torch

weight = keras.Variable([0.0, 0.0], dtype="float64")
gradient = torch.tensor([3.0, 4.0], dtype=torch.float64)
keras.optimizers.SGD(learning_rate=1.0, clipnorm=1e-50).apply([gradient], [weight])
print((0.0 - weight.value).tolist())
