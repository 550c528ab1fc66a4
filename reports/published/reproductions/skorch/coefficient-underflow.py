"""The coefficient is subnormal, so the result is 17 % too small.

Prints:
    0.8333333333333333
"""

import torch
from skorch.callbacks import GradientNormClipping

parameter = torch.nn.Parameter(torch.zeros(2))
parameter.grad = torch.tensor([3 * 2.0**60, 2.0**62])
GradientNormClipping(3 * 2.0**-87).on_grad_computed(None, [("weight", parameter)])
print(parameter.grad[1].item() / (3 * 2.0**-87 * 0.8))
