"""The coefficient is subnormal, so the result is 17 % too small.

Prints:
    0.8333333333333333
"""

import torch
from mmengine.optim import OptimWrapper

parameter = torch.nn.Parameter(torch.zeros(2))
parameter.grad = torch.tensor([3 * 2.0**60, 2.0**62])
OptimWrapper(torch.optim.SGD([parameter], lr=1.0), clip_grad={"max_norm": 3 * 2.0**-87}).step()
print(parameter.grad[1].item() / (3 * 2.0**-87 * 0.8))
