"""The squares of float16 gradients are summed in float16, so the norm of 24576 ones is far too small.

Prints:
    45.25 156.8
"""

import torch

parameter = torch.nn.Parameter(torch.zeros(24576, dtype=torch.float16))
parameter.grad = torch.ones(24576, dtype=torch.float16)
norm = torch.nn.utils.clip_grad_norm_(parameter, 1.0)
print(norm.item(), round(24576**0.5, 1))
