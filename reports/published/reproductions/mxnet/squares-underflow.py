"""The squares underflow, so the norm of [3e-24, 4e-24] is zero.

Prints:
    0.0
"""

import mxnet as mx

print(mx.gluon.utils.clip_global_norm([mx.nd.array([3e-24, 4e-24])], 1.0))
