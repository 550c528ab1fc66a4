"""A threshold of zero switches the clip off, as the documentation says.

Prints:
    [3.0, -4.0]
"""

import mxnet as mx

weight = mx.nd.zeros(2)
optimizer = mx.optimizer.SGD(learning_rate=1.0, clip_gradient=0.0)
optimizer.update(0, weight, mx.nd.array([3.0, -4.0]), None)
print((0 - weight).asnumpy().tolist())
