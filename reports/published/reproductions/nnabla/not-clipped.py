"""A threshold of zero switches the clip of a solver off.

Prints:
    [3.0, 4.0]
"""

import nnabla
import numpy as np
from nnabla import solvers

parameter = nnabla.Variable((2,), need_grad=True)
parameter.d, parameter.g = 0, np.array([3, 4], np.float32)
solver = solvers.Sgd(lr=1.0)
solver.set_parameters({"weight": parameter})
solver.clip_grad_by_norm(0.0)
print(parameter.g.tolist())
