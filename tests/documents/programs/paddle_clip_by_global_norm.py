"""Documents 000 and 001: limit the L2 norm of all gradients together."""

import numpy as np
import paddle
from formulas import assert_moved, clipped, global_norm

linear = paddle.nn.Linear(10, 10)
# Both documents print `ClipGradByGloabalNorm`.
clip = paddle.nn.ClipGradByGlobalNorm(clip_norm=1.0)
sdg = paddle.optimizer.SGD(learning_rate=0.1, parameters=linear.parameters(), grad_clip=clip)

# The document stops here. The rest takes one step above the threshold and one below it.
inputs = paddle.to_tensor(np.random.default_rng(0).normal(size=(4, 10)).astype("float32"))
for scale in (1.0, 0.01):
    linear.clear_gradients()
    (linear(inputs) * scale).sum().backward()
    before = [parameter.numpy() for parameter in linear.parameters()]
    gradients = [parameter.grad.numpy() for parameter in linear.parameters()]
    sdg.step()

    size = global_norm(gradients)
    assert (size > 1) == (scale == 1.0)
    for parameter, old, gradient in zip(linear.parameters(), before, gradients, strict=True):
        assert_moved(old, parameter.numpy(), 0.1, clipped(gradient, size, 1.0))
