"""clip_grad_norm_ takes gradients of one dtype only.

Prints:
    (InvalidArgument) The type of data we are trying to retrieve
"""

import paddle

parameters = [paddle.create_parameter([1], dtype) for dtype in ("float32", "float64")]
for parameter in parameters:
    parameter.grad = paddle.ones([1], parameter.dtype)
try:
    paddle.nn.utils.clip_grad_norm_(parameters, 1.0)
except ValueError as error:
    print(str(error).split("\n")[0][:60])
