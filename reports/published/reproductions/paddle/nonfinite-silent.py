"""With auto_skip_clip, a gradient with NaN comes back unchanged.

Prints:
    [3.0, nan]
"""

import paddle

gradient = paddle.to_tensor([3.0, float("nan")])
clip = paddle.nn.ClipGradByGlobalNorm(1.0, auto_skip_clip=True)
print(clip([(paddle.zeros([2]), gradient)])[0][1].tolist())
