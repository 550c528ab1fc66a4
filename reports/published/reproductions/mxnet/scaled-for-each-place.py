"""An array that appears twice in the list is scaled twice: 5 * (1 / sqrt(50)) ** 2.

Prints:
    [0.06, 0.08]
"""

import mxnet as mx

gradient = mx.nd.array([3.0, 4.0])
mx.gluon.utils.clip_global_norm([gradient, gradient], 1.0)
print([round(float(number), 6) for number in gradient.asnumpy()])
