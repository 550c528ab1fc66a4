"""In each of two processes, the returned infinity norm is that of its own part, although the larger one clips both.

Prints:
    3.0 | 4.0
    4.0 | 3.0
"""

import os
import tempfile

import torch
from torch.distributed.tensor import Shard, distribute_tensor

meet, rank = f"file://{tempfile.mkdtemp()}/meet", int(os.fork() == 0)
torch.distributed.init_process_group("gloo", init_method=meet, rank=rank, world_size=2)
mesh = torch.distributed.init_device_mesh("cpu", (2,))
parameter = torch.nn.Parameter(distribute_tensor(torch.zeros(2), mesh, [Shard(0)]))
parameter.grad = distribute_tensor(torch.tensor([3.0, 4.0]), mesh, [Shard(0)])
print(float(torch.nn.utils.clip_grad_norm_([parameter], 1.0, norm_type=float("inf"))), flush=True)
