"""For gradients of float64, the bound 0.1 is rounded to float32.

Prints:
    [0.10000000149011612, 0.10000000149011612]
"""

import os

os.environ["KERAS_BACKEND"] = "torch"
import keras
import torch

gradient = torch.tensor([3.0, 4.0], dtype=torch.float64)
variable = keras.Variable([0.0] * 2, dtype="float64")
optimizer = keras.optimizers.SGD(1.0, clipvalue=0.1)
optimizer.apply([gradient], [variable])
print((0 - keras.ops.convert_to_numpy(variable.value)).tolist())
