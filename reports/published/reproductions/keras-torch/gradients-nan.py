"""In float64, the threshold and the reciprocal of the norm are converted to float32: zero times infinity.

Prints:
    [nan]
"""

import os

os.environ["KERAS_BACKEND"] = "torch"
import keras
import torch

gradient = torch.tensor([4.100266178934991e-143], dtype=torch.float64)
variable = keras.Variable([0.0] * 1, dtype="float64")
optimizer = keras.optimizers.SGD(1.0, global_clipnorm=2.0**-474)
optimizer.apply([gradient], [variable])
print((0 - keras.ops.convert_to_numpy(variable.value)).tolist())
