"""The rate is subnormal and has one bit, so the results are 25 % too large.

Prints:
    [1.5, 2.0] instead of [1.2, 1.6]
"""

import chainer
import numpy as np

link = chainer.Link()
with link.init_scope():
    link.weight = chainer.Parameter(np.zeros(2, np.float32))
link.weight.grad = np.array([3 * 2.0**60, 2.0**62], np.float32)
optimizer = chainer.optimizers.SGD(1.0).setup(link)
optimizer.add_hook(chainer.optimizer_hooks.GradientClipping(2.0**-86))
optimizer.update()
print([-float(number) * 2.0**87 for number in link.weight.array], "instead of", [1.2, 1.6])
