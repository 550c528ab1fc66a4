"""The squares overflow, and the infinite norm makes every gradient zero.

Prints:
    [-0.0, -0.0]
"""

import numpy as np
from paddle import fluid

with fluid.dygraph.guard():
    parameter = fluid.layers.create_parameter([2], "float32", attr=fluid.initializer.Constant(0.0))
    loss = fluid.layers.reduce_sum(parameter * fluid.dygraph.to_variable(np.array([3e20, 4e20], "float32")))
    loss.backward()
    clip = fluid.clip.GradientClipByNorm(1e20)
    fluid.optimizer.SGDOptimizer(1.0, parameter_list=[parameter], grad_clip=clip).minimize(loss)
    print((-parameter.numpy()).tolist())
