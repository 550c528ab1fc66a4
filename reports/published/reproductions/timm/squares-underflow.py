"""The squares of the gradient underflow, so a norm above the limit of 1e-25 lets the gradient pass.

Prints:
    True
"""

import timm.utils
import torch

parameter = torch.nn.Parameter(torch.tensor([0.6, 0.8]))
parameter.grad = torch.tensor([3e-24, 4e-24])
timm.utils.adaptive_clip_grad([parameter], 1e-25)
print(torch.equal(parameter.grad, torch.tensor([3e-24, 4e-24])))
