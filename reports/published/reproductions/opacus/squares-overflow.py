"""The squares of the only example overflow, and the infinite norm makes its gradient zero.

Prints:
    [0.0, 0.0]
"""

import torch
from opacus.optimizers import DPOptimizer

parameter = torch.nn.Parameter(torch.zeros(2))
parameter.grad_sample = torch.tensor([[3e20, 4e20]])
sgd = torch.optim.SGD([parameter], lr=1.0)
clip = DPOptimizer(sgd, noise_multiplier=0, max_grad_norm=1e20, expected_batch_size=None, loss_reduction="sum")
clip.pre_step()
print(parameter.grad.tolist())
