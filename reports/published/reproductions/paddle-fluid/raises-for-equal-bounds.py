"""The clip by value takes no equal bounds.

Prints:
    InvalidArgumentError: max should be greater than min. But re
"""

import numpy as np
from paddle import fluid

with fluid.dygraph.guard():
    gradient = fluid.dygraph.to_variable(np.array([3.0, 4.0], "float32"))
    try:
        fluid.layers.clip(gradient, 1.0, 1.0)
    except fluid.core.EnforceNotMet as error:
        print([line for line in str(error).split("\n") if "Error: " in line][-1][:60])
