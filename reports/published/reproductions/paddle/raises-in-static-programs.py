"""ClipGradByValue does not work in static programs.

Prints:
    NotImplementedError
"""

import paddle

paddle.enable_static()
with paddle.static.program_guard(paddle.static.Program(), paddle.static.Program()):
    parameter = paddle.create_parameter([1], "float32")
    optimizer = paddle.optimizer.SGD(1.0, grad_clip=paddle.nn.ClipGradByValue(1.0))
    try:
        optimizer.minimize((parameter * 2.0).sum())
    except NotImplementedError as error:
        print(type(error).__name__)
