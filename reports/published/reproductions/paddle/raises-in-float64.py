"""ClipGradByNorm takes no float64.

Prints:
    (NotFound) The kernel with key (CPU, Undefined(AnyLayout), f
"""

import paddle

gradient = paddle.to_tensor([3.0, 4.0], "float64")
try:
    paddle.nn.ClipGradByNorm(1.0)([(paddle.zeros([2]), gradient)])
except RuntimeError as error:
    print(str(error).split("\n")[0][:60])
