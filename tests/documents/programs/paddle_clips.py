"""Documents 000 and 001: the three clips of Paddle, and two of them with an excluded parameter.

The documents stop before the step. This program takes steps, and checks them against the documents.
"""

import numpy as np
import paddle
from formulas import assert_moved, clipped, global_norm, norm


def step(linear, sdg, scale=1.0):
    """Take one step. Return the parameters before it, and the gradients."""
    inputs = paddle.to_tensor(np.random.default_rng(0).normal(size=(4, 10)).astype("float32"))
    linear.clear_gradients()
    (linear(inputs) * scale).sum().backward()
    before = [parameter.numpy() for parameter in linear.parameters()]
    gradients = [parameter.grad.numpy() for parameter in linear.parameters()]
    sdg.step()
    return before, gradients


def check(linear, before, expected):
    """Check that a step has moved each parameter by its expected gradient."""
    for parameter, old, gradient in zip(linear.parameters(), before, expected, strict=True):
        assert_moved(old, parameter.numpy(), 0.1, gradient)


# Limit the gradients of all parameters to a range.
linear = paddle.nn.Linear(10, 10)
clip = paddle.nn.ClipGradByValue(min=-1, max=1)
sdg = paddle.optimizer.SGD(learning_rate=0.1, parameters=linear.parameters(), grad_clip=clip)

before, gradients = step(linear, sdg)
assert max(np.abs(gradient).max() for gradient in gradients) > 1, "nothing is outside the range"
assert min(np.abs(gradient).min() for gradient in gradients) < 1, "nothing is inside the range"
check(linear, before, [np.clip(gradient.astype("float64"), -1, 1) for gradient in gradients])

# Clip the gradient of the weight only. Document 000 has a full-width comma before `bias_attr`, which is a syntax error.
# Document 001 has the line below.
linear = paddle.nn.Linear(10, 10, bias_attr=paddle.ParamAttr(need_clip=False))
sdg = paddle.optimizer.SGD(learning_rate=0.1, parameters=linear.parameters(), grad_clip=clip)

before, (weight, bias) = step(linear, sdg)
assert np.abs(weight).max() > 1
assert np.abs(bias).max() > 1
check(linear, before, [np.clip(weight.astype("float64"), -1, 1), bias.astype("float64")])

# Limit the L2 norm of each gradient: one step is above the threshold, and one below it.
linear = paddle.nn.Linear(10, 10)
clip = paddle.nn.ClipGradByNorm(clip_norm=1.0)
sdg = paddle.optimizer.SGD(learning_rate=0.1, parameters=linear.parameters(), grad_clip=clip)

for scale in (1.0, 0.01):
    before, gradients = step(linear, sdg, scale)
    assert all((norm(gradient) > 1) == (scale == 1.0) for gradient in gradients)
    check(linear, before, [clipped(gradient, norm(gradient), 1.0) for gradient in gradients])

# Clip the gradient of the bias only.
linear = paddle.nn.Linear(10, 10, weight_attr=paddle.ParamAttr(need_clip=False))
sdg = paddle.optimizer.SGD(learning_rate=0.1, parameters=linear.parameters(), grad_clip=clip)

before, (weight, bias) = step(linear, sdg)
assert norm(weight) > 1
assert norm(bias) > 1
check(linear, before, [weight.astype("float64"), clipped(bias, norm(bias), 1.0)])

# Limit the L2 norm of all gradients together. Both documents print `ClipGradByGloabalNorm`.
linear = paddle.nn.Linear(10, 10)
clip = paddle.nn.ClipGradByGlobalNorm(clip_norm=1.0)
sdg = paddle.optimizer.SGD(learning_rate=0.1, parameters=linear.parameters(), grad_clip=clip)

for scale in (1.0, 0.01):
    before, gradients = step(linear, sdg, scale)
    size = global_norm(gradients)
    assert (size > 1) == (scale == 1.0)
    check(linear, before, [clipped(gradient, size, 1.0) for gradient in gradients])
