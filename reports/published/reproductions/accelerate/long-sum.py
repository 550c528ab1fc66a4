"""The norm of 25,000,000 elements has a relative error above 1e-5.

Prints:
    True
"""

import accelerate
import torch

torch.manual_seed(0)
parameter = torch.nn.Parameter(torch.zeros(25_000_000))
parameter.grad = torch.randn(25_000_000)
right = parameter.grad.double().norm().item()
norm = accelerate.Accelerator(cpu=True).clip_grad_norm_([parameter], 1.0)
print(abs(norm.item() / right - 1) > 1e-5)
