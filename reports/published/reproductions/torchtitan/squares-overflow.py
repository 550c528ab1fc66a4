"""The squares overflow, and the infinite norm makes every gradient zero.

Prints:
    inf [0.0, 0.0]
"""

import torch
from torchtitan.distributed.utils import clip_grad_norm_

parameter = torch.nn.Parameter(torch.zeros(2))
parameter.grad = torch.tensor([3e20, 4e20])
norm = clip_grad_norm_([parameter], 1e20)
print(norm.item(), parameter.grad.tolist())
