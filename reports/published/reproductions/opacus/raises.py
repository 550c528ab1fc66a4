"""Without noise and with an infinite threshold, the deviation of the noise is zero times infinity.

Prints:
    normal expects std >= 0.0, but found std
"""

import torch
from opacus.optimizers import DPOptimizer

parameter = torch.nn.Parameter(torch.zeros(2))
parameter.grad_sample = torch.tensor([[3.0, 4.0]])
sgd = torch.optim.SGD([parameter], lr=1.0)
clip = DPOptimizer(sgd, noise_multiplier=0, max_grad_norm=float("inf"), expected_batch_size=None, loss_reduction="sum")
try:
    clip.pre_step()
except RuntimeError as error:
    print(str(error)[:40])
