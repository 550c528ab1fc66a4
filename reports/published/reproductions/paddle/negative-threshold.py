"""A negative threshold flips the signs.

Prints:
    [-3.0, 4.0]
"""

import paddle

gradient = paddle.to_tensor([3.0, -4.0])
clip = paddle.nn.ClipGradByGlobalNorm(-5.0)
print(clip([(paddle.zeros([2]), gradient)])[0][1].tolist())
