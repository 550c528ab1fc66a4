"""A negative threshold flips the signs.

Prints:
    [-1.0, 1.0]
"""

import torch
from skorch.callbacks import GradientNormClipping

parameter = torch.nn.Parameter(torch.zeros(2))
parameter.grad = torch.tensor([3.0, -4.0])
GradientNormClipping(-5.0).on_grad_computed(None, [("weight", parameter)])
print(parameter.grad.sign().tolist())
