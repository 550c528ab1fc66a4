"""A gradient without elements has no infinity norm.

Prints:
    max(): Expected reduction dim to be specified for input.numel() == 0.
"""

import torch
from fairscale.optim import OSS

torch.distributed.init_process_group("gloo", store=torch.distributed.HashStore(), rank=0, world_size=1)

parameters = [torch.nn.Parameter(torch.zeros(0)), torch.nn.Parameter(torch.zeros(2))]
parameters[0].grad, parameters[1].grad = torch.zeros(0), torch.tensor([3.0, 4.0])
try:
    OSS(parameters, torch.optim.SGD, lr=1.0).clip_grad_norm(1.0, norm_type=float("inf"))
except RuntimeError as error:
    print(str(error)[:69])
