"""Documents 000 and 001: clip the gradient of the weight only, with the bias excluded by `bias_attr`."""

import numpy as np
import paddle
from formulas import assert_moved

clip = paddle.nn.ClipGradByValue(min=-1, max=1)
# Document 000 has a full-width comma before `bias_attr`, which is a syntax error. Document 001 has the line below.
linear = paddle.nn.Linear(10, 10, bias_attr=paddle.ParamAttr(need_clip=False))
sdg = paddle.optimizer.SGD(learning_rate=0.1, parameters=linear.parameters(), grad_clip=clip)

# The document stops before the step. The rest takes one step and checks it against the document.
inputs = paddle.to_tensor(np.random.default_rng(0).normal(size=(4, 10)).astype("float32"))
linear(inputs).sum().backward()
weight, bias = linear.weight.numpy(), linear.bias.numpy()
weight_gradient, bias_gradient = linear.weight.grad.numpy(), linear.bias.grad.numpy()
sdg.step()

assert np.abs(weight_gradient).max() > 1
assert np.abs(bias_gradient).max() > 1
assert_moved(weight, linear.weight.numpy(), 0.1, np.clip(weight_gradient.astype("float64"), -1, 1))
assert_moved(bias, linear.bias.numpy(), 0.1, bias_gradient.astype("float64"))
