"""The norm 80000 is beyond float16, and the infinite norm makes every gradient zero.

Prints:
    [0.0, 0.0, 0.0, 0.0]
"""

import torch
from skorch.callbacks import GradientNormClipping

parameter = torch.nn.Parameter(torch.zeros(4, dtype=torch.float16))
parameter.grad = torch.full((4,), 40000.0, dtype=torch.float16)
GradientNormClipping(20000.0).on_grad_computed(None, [("weight", parameter)])
print(parameter.grad.tolist())
