"""The coefficient is subnormal and has one bit, so the results are 25 % too large.

Prints:
    [1.5, 2.0] instead of [1.2, 1.6]
"""

import mxnet as mx

gradient = mx.nd.array([3 * 2.0**60, 2.0**62])
mx.gluon.utils.clip_global_norm([gradient], 2.0**-86)
print([float(number) * 2.0**87 for number in gradient.asnumpy()], "instead of", [1.2, 1.6])
