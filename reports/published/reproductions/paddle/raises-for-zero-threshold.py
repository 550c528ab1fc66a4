"""ClipGradByNorm takes no threshold of zero.

Prints:
    (InvalidArgument) max_norm should be greater than 0. Receive
"""

import paddle

gradient = paddle.to_tensor([3.0, 4.0])
try:
    paddle.nn.ClipGradByNorm(0.0)([(paddle.zeros([2]), gradient)])
except ValueError as error:
    print(str(error).split("\n")[0][:60])
