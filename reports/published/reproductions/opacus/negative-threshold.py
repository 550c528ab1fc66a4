"""A negative threshold flips the signs.

Prints:
    [-1.0, 1.0]
"""

import torch
from opacus.optimizers import DPOptimizer

parameter = torch.nn.Parameter(torch.zeros(2))
parameter.grad_sample = torch.tensor([[3.0, -4.0]])
sgd = torch.optim.SGD([parameter], lr=1.0)
clip = DPOptimizer(sgd, noise_multiplier=0, max_grad_norm=-5.0, expected_batch_size=None, loss_reduction="sum")
clip.pre_step()
print(parameter.grad.sign().tolist())
