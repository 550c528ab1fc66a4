"""A bound that float32 represents exactly is read from a text with the wrong last bit.

Prints:
    0x1.3ffffe0000000p+65 instead of 0x1.4000000000000p+65
"""

import mxnet as mx

bound = 1.25 * 2.0**65
clipped = mx.nd.clip(mx.nd.array([2.0**66]), -bound, bound)
print(float(clipped.asscalar()).hex(), "instead of", bound.hex())
