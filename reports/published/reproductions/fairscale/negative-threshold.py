"""A negative threshold flips the signs.

Prints:
    [-1.0, 1.0]
"""

import torch
from fairscale.optim import OSS

torch.distributed.init_process_group("gloo", store=torch.distributed.HashStore(), rank=0, world_size=1)

parameter = torch.nn.Parameter(torch.zeros(2))
parameter.grad = torch.tensor([3.0, -4.0])
OSS([parameter], torch.optim.SGD, lr=1.0).clip_grad_norm(-5.0)
print(parameter.grad.sign().tolist())
