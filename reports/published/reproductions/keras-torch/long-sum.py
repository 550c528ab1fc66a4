"""The coefficient of gradients of float32 and float64 is a number of float32.

The exact result for the gradient of float64 is 0.8.

Prints:
    0.800000011920929
"""

import os

os.environ["KERAS_BACKEND"] = "torch"
import keras
import torch

gradients = [torch.tensor([3.0]), torch.tensor([4.0], dtype=torch.float64)]
variables = [keras.Variable([0.0]), keras.Variable([0.0], dtype="float64")]
keras.optimizers.SGD(1.0, global_clipnorm=1.0).apply(gradients, variables)
print(-variables[1].value.item())
