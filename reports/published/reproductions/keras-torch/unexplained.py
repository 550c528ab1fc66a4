"""In float64, the result has a norm slightly off the threshold, and a second clip keeps it.

`ops.maximum` converts the norm to float32. The exact norm of both results is 1.

Prints:
    0.9999999649678828
    0.9999999649678828
"""

import os

os.environ["KERAS_BACKEND"] = "torch"
import keras
import torch

gradient = torch.tensor([1.5, 2.25], dtype=torch.float64)
for _ in range(2):
    variable = keras.Variable([0.0] * 2, dtype="float64")
    keras.optimizers.SGD(1.0, clipnorm=1.0).apply([gradient], [variable])
    gradient = -variable.value.detach()
    print(gradient.norm().item())
