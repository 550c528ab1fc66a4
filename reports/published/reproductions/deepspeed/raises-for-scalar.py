"""A gradient without axes cannot be multiplied in place by a coefficient with one.

Prints:
    output with shape [] doesn't match the broadcast shape [1]
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

parameters = []
for gradient in [torch.tensor(3.0)]:
    parameters.append(torch.nn.Parameter(torch.zeros_like(gradient)))
    parameters[-1].grad = gradient
try:
    clip_grad_norm_(parameters, 1.0)
except (IndexError, RuntimeError) as error:
    print(str(error)[:69])
