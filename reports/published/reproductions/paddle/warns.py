"""A static program with ClipGradByNorm warns.

Prints:
    Tensor do not have 'place' interface for pir graph mode, try n
"""

import warnings

import paddle

paddle.enable_static()
with warnings.catch_warnings(record=True) as caught, paddle.static.program_guard(paddle.static.Program()):
    warnings.simplefilter("always")
    parameter = paddle.create_parameter([1], "float32")
    optimizer = paddle.optimizer.SGD(1.0, grad_clip=paddle.nn.ClipGradByNorm(1.0))
    optimizer.minimize((parameter * 2.0).sum())
print(str(caught[-1].message)[:62])
