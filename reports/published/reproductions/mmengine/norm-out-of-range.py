"""The norm 80000 is beyond float16, and the infinite norm makes every gradient zero.

Prints:
    [0.0, 0.0, 0.0, 0.0]
"""

import torch
from mmengine.optim import OptimWrapper

parameter = torch.nn.Parameter(torch.zeros(4, dtype=torch.float16))
parameter.grad = torch.full((4,), 40000.0, dtype=torch.float16)
OptimWrapper(torch.optim.SGD([parameter], lr=1.0), clip_grad={"max_norm": 20000.0}).step()
print(parameter.grad.tolist())
