"""The squares underflow, and the returned norm is zero instead of 5e-24.

Prints:
    0.0
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

gradient = torch.tensor([3e-24, 4e-24])
parameter = torch.nn.Parameter(torch.zeros_like(gradient))
parameter.grad = gradient
norm = clip_grad_norm_([parameter], 1e-24)
print(norm.item())
