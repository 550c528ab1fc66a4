"""The method minimize does not take groups of parameters, which step takes.

Prints:
    TypeError
"""

import paddle

linear = paddle.nn.Linear(2, 2)
groups = [{"params": [linear.weight]}, {"params": [linear.bias]}]
optimizer = paddle.optimizer.SGD(1.0, groups, grad_clip=paddle.nn.ClipGradByGlobalNorm(1.0))
loss = linear(paddle.ones([1, 2])).sum()
loss.backward()
try:
    optimizer.minimize(loss)
except TypeError as error:
    print(type(error).__name__)
