"""Each group is clipped by its own norm: 3 and 4 become 2.5 and 2.5, not 1.5 and 2.

Prints:
    [2.5, 2.5]
"""

import paddle

parameters = [paddle.create_parameter([1], "float32") for _ in range(2)]
for parameter, number in zip(parameters, (3.0, 4.0), strict=True):
    parameter.set_value(paddle.zeros([1]))
    parameter.grad = paddle.to_tensor([number])
groups = [{"params": [parameter]} for parameter in parameters]
paddle.optimizer.SGD(1.0, groups, grad_clip=paddle.nn.ClipGradByGlobalNorm(2.5)).step()
print([-parameter.item() for parameter in parameters])
