"""Documents 000 and 001: limit the gradients of all parameters to a range."""

import numpy as np
import paddle
from formulas import assert_moved

linear = paddle.nn.Linear(10, 10)
clip = paddle.nn.ClipGradByValue(min=-1, max=1)
sdg = paddle.optimizer.SGD(learning_rate=0.1, parameters=linear.parameters(), grad_clip=clip)

# The document stops here. The rest takes one step and checks it against the document.
inputs = paddle.to_tensor(np.random.default_rng(0).normal(size=(4, 10)).astype("float32"))
linear(inputs).sum().backward()
before = [parameter.numpy() for parameter in linear.parameters()]
gradients = [parameter.grad.numpy() for parameter in linear.parameters()]
sdg.step()

assert max(np.abs(gradient).max() for gradient in gradients) > 1, "nothing is outside the range"
assert min(np.abs(gradient).min() for gradient in gradients) < 1, "nothing is inside the range"
for parameter, old, gradient in zip(linear.parameters(), before, gradients, strict=True):
    assert_moved(old, parameter.numpy(), 0.1, np.clip(gradient.astype("float64"), -1, 1))
