"""The coefficient is subnormal, so the result is 17 % too small.

Prints:
    0.8333333333333333
"""

import timm.utils
import torch

parameter = torch.nn.Parameter(torch.zeros(2))
parameter.grad = torch.tensor([3 * 2.0**60, 2.0**62])
timm.utils.dispatch_clip_grad([parameter], 3 * 2.0**-87)
print(parameter.grad[1].item() / (3 * 2.0**-87 * 0.8))
