"""Numbers of Python are rounded to float32, so max_norm has only as many digits for gradients of float64.

Prints:
    [0.06000000089406967]
    [0.06]
"""

import mlx.core as mx
import numpy as np

mx.set_default_device(mx.cpu)
gradient = mx.array(np.array([0.6]), mx.float64)
print(np.array(gradient * 0.1).tolist())
print(np.array(gradient * mx.array(np.array(0.1), mx.float64)).tolist())
