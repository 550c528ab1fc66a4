"""The noise is float32, also if there is none, and makes a gradient that torch refuses for a float16 parameter.

Prints:
    attempting to assign a gradient with dtype 'float'
"""

import torch
from opacus.optimizers import DPOptimizer

parameter = torch.nn.Parameter(torch.zeros(2, dtype=torch.float16))
parameter.grad_sample = torch.tensor([[3.0, 4.0]], dtype=torch.float16)
sgd = torch.optim.SGD([parameter], lr=1.0)
clip = DPOptimizer(sgd, noise_multiplier=0, max_grad_norm=1.0, expected_batch_size=None, loss_reduction="sum")
try:
    clip.pre_step()
except RuntimeError as error:
    print(str(error)[:50])
