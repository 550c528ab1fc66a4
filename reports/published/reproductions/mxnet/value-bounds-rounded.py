"""The bounds of a float64 array are kept in float32.

Prints:
    0.10000000149011612
"""

import mxnet as mx

print(mx.nd.clip(mx.nd.array([1.0], dtype="float64"), -0.1, 0.1).asscalar())
