"""The squares underflow, and the returned norm is zero instead of 5e-24.

Prints:
    0.0
"""

import torch
from fairscale.optim import OSS

torch.distributed.init_process_group("gloo", store=torch.distributed.HashStore(), rank=0, world_size=1)

parameter = torch.nn.Parameter(torch.zeros(2))
parameter.grad = torch.tensor([3e-24, 4e-24])
norm = OSS([parameter], torch.optim.SGD, lr=1.0).clip_grad_norm(1e-24)
print(norm.item())
