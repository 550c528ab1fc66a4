"""The 1e-6 in the coefficient of a float64 gradient is rounded to float32, so the result is not 5e-07.

Prints:
    5.000000006311893e-07
"""

import paddle

parameter = paddle.create_parameter([1], "float64")
parameter.grad = paddle.to_tensor([1e-6], "float64")
paddle.nn.utils.clip_grad_norm_([parameter], 1e-6)
print(parameter.grad.item())
