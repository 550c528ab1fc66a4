"""A gradient without elements has no infinity norm.

Prints:
    _foreach_norm cannot compute the infinity norm on an empty tensor
"""

import torch
from mmengine.optim import OptimWrapper

parameters = [torch.nn.Parameter(torch.zeros(0)), torch.nn.Parameter(torch.zeros(2))]
parameters[0].grad, parameters[1].grad = torch.zeros(0), torch.tensor([3.0, 4.0])
try:
    OptimWrapper(torch.optim.SGD(parameters, lr=1.0), clip_grad={"max_norm": 1.0, "norm_type": float("inf")}).step()
except RuntimeError as error:
    print(str(error)[:65])
