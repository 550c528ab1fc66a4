"""NaN among the gradients leaves them as they are, and the step is taken.

Prints:
    nan [300.0, nan]
"""

import torch
from fairscale.optim import OSS

torch.distributed.init_process_group("gloo", store=torch.distributed.HashStore(), rank=0, world_size=1)

parameter = torch.nn.Parameter(torch.zeros(2))
parameter.grad = torch.tensor([300.0, float("nan")])
norm = OSS([parameter], torch.optim.SGD, lr=1.0).clip_grad_norm(1.0)
print(norm.item(), parameter.grad.tolist())
