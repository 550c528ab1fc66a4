"""The squares overflow, and the infinite norm makes every gradient zero.

Prints:
    [0.0, 0.0]
"""

import torch
from mmengine.optim import OptimWrapper

parameter = torch.nn.Parameter(torch.zeros(2))
parameter.grad = torch.tensor([3e20, 4e20])
OptimWrapper(torch.optim.SGD([parameter], lr=1.0), clip_grad={"max_norm": 1e20}).step()
print(parameter.grad.tolist())
