"""A bound beyond the range of float32 raises an error.

Prints:
    value cannot be converted to type float without overflow
"""

import accelerate
import torch

parameter = torch.nn.Parameter(torch.zeros(2))
parameter.grad = torch.tensor([3.0, 4.0])
try:
    accelerate.Accelerator(cpu=True).clip_grad_value_([parameter], 1e300)
except RuntimeError as error:
    print(error)
