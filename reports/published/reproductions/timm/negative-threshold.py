"""A negative threshold flips the signs.

Prints:
    [-1.0, 1.0]
"""

import timm.utils
import torch

parameter = torch.nn.Parameter(torch.zeros(2))
parameter.grad = torch.tensor([3.0, -4.0])
timm.utils.dispatch_clip_grad([parameter], -5.0)
print(parameter.grad.sign().tolist())
