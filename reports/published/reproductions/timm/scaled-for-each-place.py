"""A gradient that appears twice is scaled twice: 8 becomes 0.5, not 2.

Prints:
    0.5
"""

import timm.utils
import torch

parameter = torch.nn.Parameter(torch.zeros(1))
parameter.grad = torch.tensor([8.0])
timm.utils.dispatch_clip_grad([parameter, parameter], 4.0, norm_type=1)
print(f"{parameter.grad.item():.4g}")
