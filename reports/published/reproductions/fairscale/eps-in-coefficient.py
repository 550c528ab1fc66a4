"""The norm is the threshold, but 1e-6 is added to it.

Prints:
    ['2.5e-06', '3.3e-06']
"""

import torch
from fairscale.optim import OSS

torch.distributed.init_process_group("gloo", store=torch.distributed.HashStore(), rank=0, world_size=1)

parameter = torch.nn.Parameter(torch.zeros(2))
parameter.grad = torch.tensor([3e-6, 4e-6])
OSS([parameter], torch.optim.SGD, lr=1.0).clip_grad_norm(5e-6)
print([f"{number:.2g}" for number in parameter.grad.tolist()])
