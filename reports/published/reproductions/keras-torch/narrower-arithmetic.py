"""`ops.maximum` converts the norm of float64 to float32.

The exact results are 0.06 and 0.08.

Prints:
    [0.06000000089406967, 0.0800000011920929]
"""

import os

os.environ["KERAS_BACKEND"] = "torch"
import keras
import torch

gradient = torch.tensor([3.0, 4.0], dtype=torch.float64)
variable = keras.Variable([0.0] * 2, dtype="float64")
optimizer = keras.optimizers.SGD(1.0, clipnorm=0.1)
optimizer.apply([gradient], [variable])
print((0 - keras.ops.convert_to_numpy(variable.value)).tolist())
