"""The norm is the threshold, but 1e-6 is added to it.

Prints:
    ['2.5e-06', '3.3e-06']
"""

import torch
from opacus.optimizers import DPOptimizer

parameter = torch.nn.Parameter(torch.zeros(2))
parameter.grad_sample = torch.tensor([[3e-6, 4e-6]])
sgd = torch.optim.SGD([parameter], lr=1.0)
clip = DPOptimizer(sgd, noise_multiplier=0, max_grad_norm=5e-6, expected_batch_size=None, loss_reduction="sum")
clip.pre_step()
print([f"{number:.2g}" for number in parameter.grad.tolist()])
