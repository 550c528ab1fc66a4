"""The clip takes no float64.

Prints:
    True
"""

import mxnet as mx

try:
    mx.gluon.utils.clip_global_norm([mx.nd.array([3.0, 4.0], dtype="float64")], 1.0)
except mx.MXNetError as error:
    print("expected data type float64, got data type float32" in str(error))
