"""A clip by value of no gradients raises an error.

Prints:
    Expected !nested_tensorlist[0].empty() to be true,
"""

import torch

try:
    torch.nn.utils.clip_grad_value_([], 1.0, foreach=True)
except RuntimeError as error:
    print(str(error)[:50])
