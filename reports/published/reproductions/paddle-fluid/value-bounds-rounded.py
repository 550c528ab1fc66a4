"""The bound 0.1 of a float64 gradient is rounded to float32.

Prints:
    [0.10000000149011612, -0.10000000149011612]
"""

import numpy as np
from paddle import fluid

with fluid.dygraph.guard():
    parameter = fluid.layers.create_parameter([2], "float64", attr=fluid.initializer.Constant(0.0))
    loss = fluid.layers.reduce_sum(parameter * fluid.dygraph.to_variable(np.array([0.5, -0.5], "float64")))
    loss.backward()
    clip = fluid.clip.GradientClipByValue(0.1)
    fluid.optimizer.SGDOptimizer(1.0, parameter_list=[parameter], grad_clip=clip).minimize(loss)
    print((-parameter.numpy()).tolist())
