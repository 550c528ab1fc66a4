"""A negative threshold flips the signs.

Prints:
    [-0.6, -0.8]
"""

import chainer
import numpy as np

link = chainer.Link()
with link.init_scope():
    link.weight = chainer.Parameter(np.zeros(2, np.float32))
link.weight.grad = np.array([3, 4], np.float32)
optimizer = chainer.optimizers.SGD(1.0).setup(link)
optimizer.add_hook(chainer.optimizer_hooks.GradientClipping(-1.0))
optimizer.update()
print([round(float(-number), 6) for number in link.weight.array])
