"""Documents 000 and 001: clip the gradient of the bias only, with the weight excluded by `weight_attr`."""

import numpy as np
import paddle
from formulas import assert_moved, clipped, norm

clip = paddle.nn.ClipGradByNorm(clip_norm=1.0)
linear = paddle.nn.Linear(10, 10, weight_attr=paddle.ParamAttr(need_clip=False))
sdg = paddle.optimizer.SGD(learning_rate=0.1, parameters=linear.parameters(), grad_clip=clip)

# The document stops before the step. The rest takes one step and checks it against the document.
inputs = paddle.to_tensor(np.random.default_rng(0).normal(size=(4, 10)).astype("float32"))
linear(inputs).sum().backward()
weight, bias = linear.weight.numpy(), linear.bias.numpy()
weight_gradient, bias_gradient = linear.weight.grad.numpy(), linear.bias.grad.numpy()
sdg.step()

assert norm(weight_gradient) > 1
assert norm(bias_gradient) > 1
assert_moved(weight, linear.weight.numpy(), 0.1, weight_gradient.astype("float64"))
assert_moved(bias, linear.bias.numpy(), 0.1, clipped(bias_gradient, norm(bias_gradient), 1.0))
