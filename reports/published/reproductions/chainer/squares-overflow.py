"""Squares overflow in float16, and a gradient of norm 500 becomes zero.

Prints:
    [0.0, 0.0]
"""

import chainer
import numpy as np

link = chainer.Link()
with link.init_scope():
    link.weight = chainer.Parameter(np.zeros(2, np.float16))
link.weight.grad = np.array([300, 400], np.float16)
optimizer = chainer.optimizers.SGD(1.0).setup(link)
optimizer.add_hook(chainer.optimizer_hooks.GradientClipping(1000.0))
optimizer.update()
print(abs(link.weight.array).tolist())
