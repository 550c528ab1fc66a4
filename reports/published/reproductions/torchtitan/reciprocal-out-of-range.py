"""In float16, the reciprocal of 1e-6 is infinite, and zero times infinity is NaN.

Prints:
    [nan, nan]
"""

import torch
from torchtitan.distributed.utils import clip_grad_norm_

parameter = torch.nn.Parameter(torch.zeros(2, dtype=torch.float16))
parameter.grad = torch.zeros(2, dtype=torch.float16)
clip_grad_norm_([parameter], 0.0)
print(parameter.grad.tolist())
