"""A negative threshold flips the signs.

Prints:
    [-1.0, 1.0]
"""

import torch
from mmengine.optim import OptimWrapper

parameter = torch.nn.Parameter(torch.zeros(2))
parameter.grad = torch.tensor([3.0, -4.0])
OptimWrapper(torch.optim.SGD([parameter], lr=1.0), clip_grad={"max_norm": -5.0}).step()
print(parameter.grad.sign().tolist())
