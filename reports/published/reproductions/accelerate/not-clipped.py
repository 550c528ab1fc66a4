"""A parameter without a list is not clipped, and its norm is zero: Accelerate makes a list of its rows.

Prints:
    0.0 [3.0, 4.0]
"""

import accelerate
import torch

parameter = torch.nn.Parameter(torch.zeros(2))
parameter.grad = torch.tensor([3.0, 4.0])
norm = accelerate.Accelerator(cpu=True).clip_grad_norm_(parameter, 1.0)
print(norm.item(), parameter.grad.tolist())
