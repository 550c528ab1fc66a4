"""A gradient with NaN is not clipped: 3 stays 3.

Prints:
    [3.0, nan]
"""

import nnabla
import numpy as np
from nnabla import solvers

parameter = nnabla.Variable((2,), need_grad=True)
parameter.d, parameter.g = 0, np.array([3, np.nan], np.float32)
solver = solvers.Sgd(lr=1.0)
solver.set_parameters({"weight": parameter})
solver.clip_grad_by_norm(1.0)
print(parameter.g.tolist())
