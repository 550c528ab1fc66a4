"""The squares underflow, and the returned norm is zero instead of 5e-24.

Prints:
    0.0
"""

import paddle

parameter = paddle.create_parameter([2], "float32")
parameter.grad = paddle.to_tensor([3e-24, 4e-24])
norm = paddle.nn.utils.clip_grad_norm_([parameter], 1e-24)
print(norm.item())
