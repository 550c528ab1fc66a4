"""The squares overflow, and the infinite norm makes every gradient zero.

Prints:
    [0.0, 0.0]
"""

import timm.utils
import torch

parameter = torch.nn.Parameter(torch.zeros(2))
parameter.grad = torch.tensor([3e20, 4e20])
timm.utils.dispatch_clip_grad([parameter], 1e20)
print(parameter.grad.tolist())
