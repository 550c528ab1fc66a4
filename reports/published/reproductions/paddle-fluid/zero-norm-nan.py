"""The threshold is divided by a norm of zero.

Prints:
    [nan, nan]
"""

import numpy as np
from paddle import fluid

with fluid.dygraph.guard():
    parameter = fluid.layers.create_parameter([2], "float32", attr=fluid.initializer.Constant(0.0))
    loss = fluid.layers.reduce_sum(parameter * fluid.dygraph.to_variable(np.array([0.0, 0.0], "float32")))
    loss.backward()
    clip = fluid.clip.GradientClipByNorm(1.0)
    fluid.optimizer.SGDOptimizer(1.0, parameter_list=[parameter], grad_clip=clip).minimize(loss)
    print((-parameter.numpy()).tolist())
