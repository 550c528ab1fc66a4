"""The squares overflow, and the infinite norm makes every gradient zero.

Prints:
    [0.0, 0.0]
"""

import torch
from skorch.callbacks import GradientNormClipping

parameter = torch.nn.Parameter(torch.zeros(2))
parameter.grad = torch.tensor([3e20, 4e20])
GradientNormClipping(1e20).on_grad_computed(None, [("weight", parameter)])
print(parameter.grad.tolist())
