"""In float16, the reciprocal of 1e-6 is infinite, and zero times infinity is NaN.

Prints:
    [nan, nan]
"""

import torch
from skorch.callbacks import GradientNormClipping

parameter = torch.nn.Parameter(torch.zeros(2, dtype=torch.float16))
parameter.grad = torch.zeros(2, dtype=torch.float16)
GradientNormClipping(0.0).on_grad_computed(None, [("weight", parameter)])
print(parameter.grad.tolist())
