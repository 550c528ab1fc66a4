"""The largest magnitude of a gradient without elements raises an error.

Prints:
    Max cannot deal with empty input. Please try other inputs
"""

import mindspore as ms
import numpy as np
from mindspore import ops

try:
    ops.clip_by_norm(ms.Tensor(np.zeros(0, np.float32)), 1.0, float("inf"))
except ValueError as error:
    print(str(error).partition("\n")[0])
