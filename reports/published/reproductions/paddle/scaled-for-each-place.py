"""A gradient that appears twice is scaled twice: 8 becomes 0.5, not 2.

Prints:
    16.0 0.5
"""

import paddle

parameter = paddle.create_parameter([1], "float32")
parameter.grad = paddle.to_tensor([8.0])
norm = paddle.nn.utils.clip_grad_norm_([parameter, parameter], 4.0, norm_type=1)
print(norm.item(), f"{parameter.grad.item():.4g}")
