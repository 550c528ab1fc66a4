"""The norm 80000 is beyond float16, and the infinite norm makes every gradient zero.

Prints:
    [0.0, 0.0, 0.0, 0.0]
"""

import timm.utils
import torch

parameter = torch.nn.Parameter(torch.zeros(4, dtype=torch.float16))
parameter.grad = torch.full((4,), 40000.0, dtype=torch.float16)
timm.utils.dispatch_clip_grad([parameter], 20000.0)
print(parameter.grad.tolist())
