"""The coefficient 1e-39 is a subnormal number of float32, and has few digits.

The exact result is 1e-20.

Prints:
    [1.0000002106035926e-20]
"""

import os

os.environ["KERAS_BACKEND"] = "torch"
import keras
import torch

gradient = torch.tensor([1e19], dtype=torch.float32)
variable = keras.Variable([0.0] * 1, dtype="float32")
optimizer = keras.optimizers.SGD(1.0, global_clipnorm=1e-20)
optimizer.apply([gradient], [variable])
print((0 - keras.ops.convert_to_numpy(variable.value)).tolist())
