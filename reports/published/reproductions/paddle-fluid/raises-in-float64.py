"""The clip by norm takes no float64.

Prints:
    NotFoundError: Operator clip_by_norm does not have kernel fo
"""

import numpy as np
from paddle import fluid

with fluid.dygraph.guard():
    gradient = fluid.dygraph.to_variable(np.array([3.0, 4.0]))
    try:
        fluid.layers.clip_by_norm(gradient, 1.0)
    except fluid.core.EnforceNotMet as error:
        print([line for line in str(error).split("\n") if "Error: " in line][-1][:60])
