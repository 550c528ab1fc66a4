"""Documents 000 and 001: limit the L2 norm of each gradient."""

import numpy as np
import paddle
from formulas import assert_moved, clipped, norm

linear = paddle.nn.Linear(10, 10)
clip = paddle.nn.ClipGradByNorm(clip_norm=1.0)
sdg = paddle.optimizer.SGD(learning_rate=0.1, parameters=linear.parameters(), grad_clip=clip)

# The document stops here. The rest takes one step above the threshold and one below it.
inputs = paddle.to_tensor(np.random.default_rng(0).normal(size=(4, 10)).astype("float32"))
for scale in (1.0, 0.01):
    linear.clear_gradients()
    (linear(inputs) * scale).sum().backward()
    before = [parameter.numpy() for parameter in linear.parameters()]
    gradients = [parameter.grad.numpy() for parameter in linear.parameters()]
    sdg.step()

    assert all((norm(gradient) > 1) == (scale == 1.0) for gradient in gradients)
    for parameter, old, gradient in zip(linear.parameters(), before, gradients, strict=True):
        assert_moved(old, parameter.numpy(), 0.1, clipped(gradient, norm(gradient), 1.0))
