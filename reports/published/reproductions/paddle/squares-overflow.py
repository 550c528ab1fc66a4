"""The squares overflow, and the infinite norm makes every gradient zero.

Prints:
    [0.0, 0.0]
"""

import paddle

gradient = paddle.to_tensor([3e20, 4e20])
clip = paddle.nn.ClipGradByNorm(1e20)
print(clip([(paddle.zeros([2]), gradient)])[0][1].tolist())
