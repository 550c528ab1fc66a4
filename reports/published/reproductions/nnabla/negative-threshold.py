"""A negative threshold flips the signs.

Prints:
    [-0.6, -0.8]
"""

import nnabla
import numpy as np
from nnabla import solvers

parameter = nnabla.Variable((2,), need_grad=True)
parameter.d, parameter.g = 0, np.array([3, 4], np.float32)
solver = solvers.Sgd(lr=1.0)
solver.set_parameters({"weight": parameter})
solver.clip_grad_by_norm(-1.0)
print([round(float(number), 6) for number in parameter.g])
