"""The norm is the threshold, but 1e-6 is added to it.

Prints:
    ['2.5e-06', '3.3e-06']
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

gradient = torch.tensor([3e-6, 4e-6])
parameter = torch.nn.Parameter(torch.zeros_like(gradient))
parameter.grad = gradient
clip_grad_norm_([parameter], 5e-6)
print([f"{number:.2g}" for number in parameter.grad.tolist()])
