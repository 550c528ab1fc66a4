"""A bound outside the normal range of float32 is refused, even for an array of float64.

Prints:
    MXNetError: Out of range value for a_max, value='1e+39'
"""

import mxnet as mx

try:
    mx.nd.clip(mx.nd.array([1.0], dtype="float64"), 0.0, 1e39)
except mx.MXNetError as error:
    print(str(error)[:55])
