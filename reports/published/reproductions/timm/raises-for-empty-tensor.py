"""A gradient without elements has no infinity norm.

Prints:
    _foreach_norm cannot compute the infinity norm on an empty tensor
"""

import timm.utils
import torch

parameters = [torch.nn.Parameter(torch.zeros(0)), torch.nn.Parameter(torch.zeros(2))]
parameters[0].grad, parameters[1].grad = torch.zeros(0), torch.tensor([3.0, 4.0])
try:
    timm.utils.dispatch_clip_grad(parameters, 1.0, norm_type=float("inf"))
except RuntimeError as error:
    print(str(error)[:65])
