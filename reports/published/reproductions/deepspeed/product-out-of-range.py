"""The squares overflow, and the infinite norm is replaced by -1. The products with minus the threshold overflow, too.

Prints:
    -1.0 [-inf, -inf]
"""

import os

os.environ.update(DS_ACCELERATOR="cpu", LOCAL_RANK="0")
import deepspeed
import torch
from deepspeed.runtime.utils import clip_tensors_by_global_norm

# Without this line, DeepSpeed compiles a kernel for minutes. Only its inference uses the kernel.
deepspeed.ops.__compatible_ops__["deepspeed_shm_comm"] = False
torch.distributed.init_process_group("gloo", store=torch.distributed.HashStore(), rank=0, world_size=1)
deepspeed.init_distributed("gloo")

gradient = torch.tensor([3e20, 4e20])
norm = clip_tensors_by_global_norm([gradient], 1e20)
print(norm.item(), gradient.tolist())
