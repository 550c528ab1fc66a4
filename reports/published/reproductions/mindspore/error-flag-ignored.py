"""error_if_nonfinite raises no error for NaN, if the norm is the largest magnitude.

Prints:
    [0.99999964        nan]
"""

import mindspore as ms
import numpy as np
from mindspore import ops

gradient = ms.Tensor(np.array([3.0, np.nan], np.float32))
print(ops.clip_by_norm(gradient, 1.0, float("inf"), error_if_nonfinite=True))
