"""The sum of squares overflows, and gradients below the threshold become zero.

Prints:
    [0.0, 0.0] inf
"""

import mxnet as mx

gradient = mx.nd.array([3e20, 4e20])
norm = mx.gluon.utils.clip_global_norm([gradient], 1e25, check_isfinite=False)
print(gradient.asnumpy().tolist(), norm.asscalar())
