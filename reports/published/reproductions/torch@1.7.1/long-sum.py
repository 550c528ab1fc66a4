"""The squares of float16 gradients are summed in float16. The sum of 4096 ones stops at 2048, and the norm is not 64.

Prints:
    45.25
"""

import torch

parameter = torch.nn.Parameter(torch.zeros(4096, dtype=torch.float16))
parameter.grad = torch.ones(4096, dtype=torch.float16)
print(torch.nn.utils.clip_grad_norm_(parameter, 1.0).item())
