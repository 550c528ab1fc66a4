"""The squares underflow, so a gradient of norm 5e-24 is not clipped to 1e-24.

Prints:
    ['3e-24', '4e-24']
"""

import chainer
import numpy as np

link = chainer.Link()
with link.init_scope():
    link.weight = chainer.Parameter(np.zeros(2, np.float32))
link.weight.grad = np.array([3e-24, 4e-24], np.float32)
optimizer = chainer.optimizers.SGD(1.0).setup(link)
optimizer.add_hook(chainer.optimizer_hooks.GradientClipping(1e-24))
optimizer.update()
print([f"{-number:.2g}" for number in link.weight.array])
