"""The squares underflow, and the returned norm is zero instead of 5e-24.

Prints:
    0.0
"""

import accelerate
import torch

parameter = torch.nn.Parameter(torch.zeros(2))
parameter.grad = torch.tensor([3e-24, 4e-24])
norm = accelerate.Accelerator(cpu=True).clip_grad_norm_([parameter], 1e-24)
print(norm.item())
