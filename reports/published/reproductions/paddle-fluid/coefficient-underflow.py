"""The coefficient is subnormal, so the result is 17 % too small: 1.55e-26 is due in the second place.

Prints:
    [9.693522803355793e-27, 1.2924697071141057e-26]
"""

import numpy as np
from paddle import fluid

with fluid.dygraph.guard():
    parameter = fluid.layers.create_parameter([2], "float32", attr=fluid.initializer.Constant(0.0))
    loss = fluid.layers.reduce_sum(parameter * fluid.dygraph.to_variable(np.array([3 * 2.0**60, 2.0**62], "float32")))
    loss.backward()
    clip = fluid.clip.GradientClipByNorm(3 * 2.0**-87)
    fluid.optimizer.SGDOptimizer(1.0, parameter_list=[parameter], grad_clip=clip).minimize(loss)
    print((-parameter.numpy()).tolist())
