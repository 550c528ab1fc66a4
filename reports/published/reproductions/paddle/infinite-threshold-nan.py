"""Infinity is divided by infinity.

Prints:
    [nan, nan]
"""

import paddle

gradient = paddle.to_tensor([3.0, 4.0])
clip = paddle.nn.ClipGradByGlobalNorm(float("inf"))
print(clip([(paddle.zeros([2]), gradient)])[0][1].tolist())
