"""The norm of 2**24 numbers is wrong by more than 0.01 % in float32, and so are the clipped gradients.

Prints:
    True
"""

import chainer
import numpy as np

link = chainer.Link()
with link.init_scope():
    link.weight = chainer.Parameter(np.zeros(2**24, np.float32))
link.weight.grad = np.full(2**24, 0.3, np.float32)
optimizer = chainer.optimizers.SGD(1.0).setup(link)
optimizer.add_hook(chainer.optimizer_hooks.GradientClipping(1.0))
optimizer.update()
print(abs(-link.weight.array[0] * 2.0**12 - 1) > 1e-4)
