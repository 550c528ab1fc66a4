"""Gradients of norm 1e-6 are clipped to 5e-7 instead of 1e-6: the norm gets 1e-6 more.

Prints:
    [3e-07, 4e-07]
"""

import mindspore as ms
import numpy as np
from mindspore import ops

gradient = ms.Tensor(np.array([6e-7, 8e-7], np.float32))
print([float(f"{number:.3g}") for number in ops.clip_by_norm(gradient, 1e-6).asnumpy()])
