"""An empty list breaks an assertion without a message.

Prints:
    AssertionError('')
"""

import mxnet as mx

try:
    mx.gluon.utils.clip_global_norm([], 1.0)
except AssertionError as error:
    print(f"AssertionError({str(error)!r})")
