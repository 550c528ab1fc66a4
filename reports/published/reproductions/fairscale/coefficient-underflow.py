"""The coefficient is subnormal, so the result is 17 % too small.

Prints:
    0.8333333333333333
"""

import torch
from fairscale.optim import OSS

torch.distributed.init_process_group("gloo", store=torch.distributed.HashStore(), rank=0, world_size=1)

parameter = torch.nn.Parameter(torch.zeros(2))
parameter.grad = torch.tensor([3 * 2.0**60, 2.0**62])
OSS([parameter], torch.optim.SGD, lr=1.0).clip_grad_norm(3 * 2.0**-87)
print(parameter.grad[1].item() / (3 * 2.0**-87 * 0.8))
