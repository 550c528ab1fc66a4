"""The norm exhausts the generator, so nothing is scaled.

Prints:
    [3.0, 4.0]
"""

import paddle

parameter = paddle.create_parameter([2], "float32")
parameter.grad = paddle.to_tensor([3.0, 4.0])
paddle.nn.utils.clip_grad_norm_((one for one in [parameter]), 1.0)
print(parameter.grad.tolist())
