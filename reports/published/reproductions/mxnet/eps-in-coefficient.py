"""Gradients of norm 1e-8 are clipped to 5e-9 instead of 1e-8: the norm gets 1e-8 more.

Prints:
    [3e-09, 4e-09]
"""

import mxnet as mx

gradient = mx.nd.array([6e-9, 8e-9])
mx.gluon.utils.clip_global_norm([gradient], 1e-8)
print([float(f"{number:.3g}") for number in gradient.asnumpy()])
