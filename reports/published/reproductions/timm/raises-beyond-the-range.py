"""A bound beyond the range of float32 raises an error.

Prints:
    value cannot be converted to type float without overflow
"""

import timm.utils
import torch

parameter = torch.nn.Parameter(torch.zeros(2))
parameter.grad = torch.tensor([3.0, 4.0])
try:
    timm.utils.dispatch_clip_grad([parameter], 1e300, mode="value")
except RuntimeError as error:
    print(error)
