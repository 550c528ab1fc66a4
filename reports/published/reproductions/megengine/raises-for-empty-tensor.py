"""The infinity norm of a gradient without elements raises an error, which rises only when a result is read.

Prints:
    AsyncError
"""

import megengine as mge
import numpy as np
from megengine.optimizer import clip_grad_norm

parameter = mge.Parameter(np.zeros(0, np.float32))
parameter.grad = mge.Tensor(np.zeros(0, np.float32))
norm = clip_grad_norm([parameter], 1.0, ord=float("inf"))
try:
    norm.numpy()
except RuntimeError as error:
    print(type(error).__name__)
