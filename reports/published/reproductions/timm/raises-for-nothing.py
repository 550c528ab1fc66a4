"""A clip by value of no gradients raises an error.

Prints:
    Expected !nested_tensorlist[0].empty() to be true,
"""

import timm.utils

try:
    timm.utils.dispatch_clip_grad([], 1.0, mode="value")
except RuntimeError as error:
    print(str(error)[:50])
