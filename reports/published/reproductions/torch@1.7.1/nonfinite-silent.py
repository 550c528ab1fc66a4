"""The gradients are scaled if coefficient < 1. This is false for a NaN norm, so they come back as if nothing was wrong.

Prints:
    nan [nan, 4.0]
"""

import torch

parameter = torch.nn.Parameter(torch.zeros(2))
parameter.grad = torch.tensor([float("nan"), 4.0])
norm = torch.nn.utils.clip_grad_norm_(parameter, 1.0)
print(norm.item(), parameter.grad.tolist())
