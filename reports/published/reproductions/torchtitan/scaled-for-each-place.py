"""A gradient that appears twice is scaled twice: 8 becomes 0.5, not 2.

Prints:
    16.0 0.5
"""

import torch
from torchtitan.distributed.utils import clip_grad_norm_

parameter = torch.nn.Parameter(torch.zeros(1))
parameter.grad = torch.tensor([8.0])
norm = clip_grad_norm_([parameter, parameter], 4.0, norm_type=1)
print(norm.item(), f"{parameter.grad.item():.4g}")
