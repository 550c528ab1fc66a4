"""A gradient without elements has no infinity norm.

Prints:
    _foreach_norm cannot compute the infinity norm on an empty tensor
"""

import torch
from skorch.callbacks import GradientNormClipping

parameters = [torch.nn.Parameter(torch.zeros(0)), torch.nn.Parameter(torch.zeros(2))]
parameters[0].grad, parameters[1].grad = torch.zeros(0), torch.tensor([3.0, 4.0])
try:
    GradientNormClipping(1.0, gradient_clip_norm_type=float("inf")).on_grad_computed(None, enumerate(parameters))
except RuntimeError as error:
    print(str(error)[:65])
