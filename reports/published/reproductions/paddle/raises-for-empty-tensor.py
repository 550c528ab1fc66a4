"""A gradient without elements has no infinity norm.

Prints:
    (InvalidArgument) Cannot perform reduction along an axis (0)
"""

import paddle

parameters = [paddle.create_parameter([size], "float32") for size in (0, 1)]
for parameter in parameters:
    parameter.grad = paddle.ones(parameter.shape)
try:
    paddle.nn.utils.clip_grad_norm_(parameters, 1.0, norm_type=float("inf"))
except ValueError as error:
    print(str(error).split("\n")[0][:60])
