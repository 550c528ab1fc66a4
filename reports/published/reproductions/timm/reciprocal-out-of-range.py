"""In float16, the reciprocal of 1e-6 is infinite, and zero times infinity is NaN.

Prints:
    [nan, nan]
"""

import timm.utils
import torch

parameter = torch.nn.Parameter(torch.zeros(2, dtype=torch.float16))
parameter.grad = torch.zeros(2, dtype=torch.float16)
timm.utils.dispatch_clip_grad([parameter], 0.0)
print(parameter.grad.tolist())
