"""set_gradient_clip finds no parameters in a static program, so nothing is clipped, and no error says so.

Prints:
    [-3.0, -4.0]
"""

import numpy as np
import paddle

paddle.enable_static()
parameter = paddle.static.create_parameter([2], "float32", default_initializer=paddle.nn.initializer.Constant(0.0))
paddle.nn.clip.set_gradient_clip(paddle.nn.ClipGradByGlobalNorm(1.0))
paddle.optimizer.SGD(1.0).minimize((parameter * paddle.assign(np.array([3.0, 4.0], "float32"))).sum())
executor = paddle.static.Executor()
executor.run(paddle.static.default_startup_program())
executor.run()
print(np.array(paddle.static.global_scope().find_var(parameter.name).get_tensor()).tolist())
