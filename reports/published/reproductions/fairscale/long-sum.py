"""The norm of 25,000,000 elements has a relative error above 1e-5.

Prints:
    True
"""

import torch
from fairscale.optim import OSS

torch.distributed.init_process_group("gloo", store=torch.distributed.HashStore(), rank=0, world_size=1)

torch.manual_seed(0)
parameter = torch.nn.Parameter(torch.zeros(25_000_000))
parameter.grad = torch.randn(25_000_000)
right = parameter.grad.double().norm().item()
norm = OSS([parameter], torch.optim.SGD, lr=1.0).clip_grad_norm(1.0)
print(abs(norm.item() / right - 1) > 1e-5)
