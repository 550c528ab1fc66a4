"""A negative threshold flips the signs.

Prints:
    [-0.6, -0.8]
"""

import mxnet as mx

gradient = mx.nd.array([3.0, 4.0])
mx.gluon.utils.clip_global_norm([gradient], -1.0)
print([round(float(number), 6) for number in gradient.asnumpy()])
