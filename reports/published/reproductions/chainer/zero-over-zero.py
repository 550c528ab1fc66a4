"""Zero is divided by zero.

Prints:
    [nan, nan]
"""

import chainer
import numpy as np

link = chainer.Link()
with link.init_scope():
    link.weight = chainer.Parameter(np.zeros(2, np.float32))
link.weight.grad = np.zeros(2, np.float32)
optimizer = chainer.optimizers.SGD(1.0).setup(link)
optimizer.add_hook(chainer.optimizer_hooks.GradientClipping(0.0))
optimizer.update()
print(link.weight.array.tolist())
