"""The norm of 4,000,000 elements has a relative error above 1e-6.

Prints:
    True
"""

import numpy as np
from paddle import fluid

numbers = np.random.RandomState(0).standard_normal(4000000).astype("float32")
right = np.linalg.norm(numbers.astype("float64"))
with fluid.dygraph.guard():
    gradient = fluid.dygraph.to_variable(numbers)
    clipped = fluid.clip.GradientClipByGlobalNorm(1.0)([(gradient, gradient)])[0][1].numpy()
print(abs(numbers[0] / clipped[0] / right - 1) > 1e-6)
