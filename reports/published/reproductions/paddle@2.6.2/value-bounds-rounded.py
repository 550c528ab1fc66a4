"""A static program holds the bounds of the clip as float32, so 0.1 becomes 0.10000000149011612.

Prints:
    [0.10000000149011612]
"""

import numpy as np
import paddle

paddle.enable_static()
parameter = paddle.static.create_parameter([1], "float64", default_initializer=paddle.nn.initializer.Constant(0.0))
data = paddle.static.data("data", [1], "float64")
paddle.optimizer.SGD(1.0, grad_clip=paddle.nn.ClipGradByValue(0.1)).minimize((parameter * data).sum())
executor = paddle.static.Executor()
executor.run(paddle.static.default_startup_program())
executor.run(feed={"data": np.array([-1.0])})
print(np.array(paddle.static.global_scope().find_var(parameter.name).get_tensor()).tolist())
