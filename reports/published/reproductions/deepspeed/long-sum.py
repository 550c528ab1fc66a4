"""The norm of 25,000,000 elements has a relative error above 1e-5.

Prints:
    True
"""

import os

os.environ.update(DS_ACCELERATOR="cpu", LOCAL_RANK="0")
import deepspeed
import torch
from deepspeed.runtime.utils import clip_grad_norm_

# Without this line, DeepSpeed compiles a kernel for minutes. Only its inference uses the kernel.
deepspeed.ops.__compatible_ops__["deepspeed_shm_comm"] = False
torch.distributed.init_process_group("gloo", store=torch.distributed.HashStore(), rank=0, world_size=1)
deepspeed.init_distributed("gloo")

parameter = torch.nn.Parameter(
    torch.zeros_like(gradient := torch.randn(25_000_000, generator=torch.Generator().manual_seed(0)))
)
parameter.grad = gradient
right = gradient.double().norm().item()
norm = clip_grad_norm_([parameter], 1.0)
print(abs(norm.item() / right - 1) > 1e-5)
