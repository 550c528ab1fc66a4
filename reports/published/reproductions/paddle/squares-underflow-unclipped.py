"""The squares underflow, so gradients of norm 5e-24 are not clipped to 2.5e-24.

Prints:
    ['3e-24', '4e-24']
"""

import paddle

gradient = paddle.to_tensor([3e-24, 4e-24])
clip = paddle.nn.ClipGradByGlobalNorm(2.5e-24)
print([f"{number:.2g}" for number in clip([(paddle.zeros([2]), gradient)])[0][1].tolist()])
