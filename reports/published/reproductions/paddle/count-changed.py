"""The pair without a gradient is left out: 2 of 3 pairs come back.

Prints:
    2
"""

import paddle

gradients = [paddle.to_tensor([3.0]), None, paddle.to_tensor([4.0])]
clip = paddle.nn.ClipGradByGlobalNorm(1.0)
print(len(clip([(paddle.zeros([1]), gradient) for gradient in gradients])))
