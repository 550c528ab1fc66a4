"""A gradient without dimensions gets one.

Prints:
    paddle.Size([]) paddle.Size([1])
"""

import paddle

gradient = paddle.to_tensor(3.0)
clip = paddle.nn.ClipGradByGlobalNorm(1.0)
print(gradient.shape, clip([(paddle.zeros([]), gradient)])[0][1].shape)
