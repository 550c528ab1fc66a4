"""paddle.max loses NaN, so the infinity norm is finite and error_if_nonfinite does not raise.

Prints:
    4.0
"""

import paddle

parameters = [paddle.create_parameter([1], "float32") for _ in range(2)]
for parameter, number in zip(parameters, (float("nan"), 4.0), strict=True):
    parameter.grad = paddle.to_tensor([number])
print(float(paddle.nn.utils.clip_grad_norm_(parameters, 1.0, float("inf"), error_if_nonfinite=True)))
