"""The coefficient is subnormal, so the result is 17 % too small.

Prints:
    0.8333333333333333
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

gradient = torch.tensor([3 * 2.0**60, 2.0**62])
parameter = torch.nn.Parameter(torch.zeros_like(gradient))
parameter.grad = gradient
clip_grad_norm_([parameter], 3 * 2.0**-87)
print(parameter.grad[1].item() / (3 * 2.0**-87 * 0.8))
