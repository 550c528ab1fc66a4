"""An infinite norm is replaced by -1, so the gradients are negated, and not clipped.

Prints:
    -1.0 [-3.0, -4.0, -inf]
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

gradient = torch.tensor([3.0, 4.0, float("inf")])
norm = clip_tensors_by_global_norm([gradient], 1.0)
print(norm.item(), [round(number, 4) for number in gradient.tolist()])
