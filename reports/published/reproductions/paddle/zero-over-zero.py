"""Zero is divided by zero.

Prints:
    [nan, nan]
"""

import paddle

gradient = paddle.to_tensor([0.0, 0.0])
clip = paddle.nn.ClipGradByGlobalNorm(0.0)
print(clip([(paddle.zeros([2]), gradient)])[0][1].tolist())
