"""A scalar parameter without a list raises an error: Accelerate makes a list of its rows.

Prints:
    iteration over a 0-d tensor
"""

import accelerate
import torch

parameter = torch.nn.Parameter(torch.zeros(()))
parameter.grad = torch.tensor(4.0)
try:
    accelerate.Accelerator(cpu=True).clip_grad_norm_(parameter, 1.0)
except TypeError as error:
    print(error)
