"""The norm 80000 is beyond float16, and the infinite norm makes every gradient zero.

Prints:
    inf [0.0, 0.0, 0.0, 0.0]
"""

import torch
from torchtitan.distributed.utils import clip_grad_norm_

parameter = torch.nn.Parameter(torch.zeros(4, dtype=torch.float16))
parameter.grad = torch.full((4,), 40000.0, dtype=torch.float16)
norm = clip_grad_norm_([parameter], 20000.0)
print(norm.item(), parameter.grad.tolist())
