"""The squares overflow, and the infinite norm makes every gradient zero.

Prints:
    inf [0.0, 0.0]
"""

import accelerate
import torch

parameter = torch.nn.Parameter(torch.zeros(2))
parameter.grad = torch.tensor([3e20, 4e20])
norm = accelerate.Accelerator(cpu=True).clip_grad_norm_([parameter], 1e20)
print(norm.item(), parameter.grad.tolist())
