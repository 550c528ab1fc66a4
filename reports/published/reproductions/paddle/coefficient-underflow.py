"""The coefficient is subnormal, so the result is 17 % too small.

Prints:
    0.8333333333333333
"""

import paddle

gradient = paddle.to_tensor([3 * 2.0**60, 2.0**62])
clip = paddle.nn.ClipGradByNorm(3 * 2.0**-87)
print(clip([(paddle.zeros([2]), gradient)])[0][1][1].item() / (3 * 2.0**-87 * 0.8))
