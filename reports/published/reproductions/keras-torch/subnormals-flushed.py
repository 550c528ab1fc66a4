"""For gradients of float64, a bound below the range of float32 becomes zero.

Prints:
    [0.0]
"""

import os

os.environ["KERAS_BACKEND"] = "torch"
import keras
import torch

gradient = torch.tensor([3.0], dtype=torch.float64)
variable = keras.Variable([0.0] * 1, dtype="float64")
optimizer = keras.optimizers.SGD(1.0, clipvalue=1e-310)
optimizer.apply([gradient], [variable])
print((0 - keras.ops.convert_to_numpy(variable.value)).tolist())
