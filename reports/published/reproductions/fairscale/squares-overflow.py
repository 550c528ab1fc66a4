"""The squares overflow, and the infinite norm makes every gradient zero.

Prints:
    inf [0.0, 0.0]
"""

import torch
from fairscale.optim import OSS

torch.distributed.init_process_group("gloo", store=torch.distributed.HashStore(), rank=0, world_size=1)

parameter = torch.nn.Parameter(torch.zeros(2))
parameter.grad = torch.tensor([3e20, 4e20])
norm = OSS([parameter], torch.optim.SGD, lr=1.0).clip_grad_norm(1e20)
print(norm.item(), parameter.grad.tolist())
