"""In float16, the reciprocal of 1e-6 is infinite, and zero times infinity is NaN.

Prints:
    [nan, nan]
"""

import torch
from opacus.optimizers import DPOptimizer

parameter = torch.nn.Parameter(torch.zeros(2, dtype=torch.float16))
parameter.grad_sample = torch.tensor([[3.0, 4.0], [0.0, 0.0]], dtype=torch.float16)
sgd = torch.optim.SGD([parameter], lr=1.0)
clip = DPOptimizer(sgd, noise_multiplier=0, max_grad_norm=0.0, expected_batch_size=None, loss_reduction="sum")
clip.pre_step()
print(parameter.grad.tolist())
