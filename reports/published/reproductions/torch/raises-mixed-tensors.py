"""Parameters that fully_shard was told to ignore stay plain tensors, and a clip of both kinds raises an error.

Prints:
    aten._foreach_norm.Scalar got mixed torch.Tensor and DTensor
"""

import torch
from torch.distributed.fsdp import fully_shard

torch.distributed.init_process_group("gloo", store=torch.distributed.HashStore(), rank=0, world_size=1)
model = torch.nn.Sequential(torch.nn.Linear(2, 2, bias=False), torch.nn.Linear(2, 2, bias=False))
fully_shard(model, mesh=torch.distributed.init_device_mesh("cpu", (1,)), ignored_params={model[1].weight})
model(torch.ones(1, 2)).sum().backward()
try:
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
except RuntimeError as error:
    print(str(error).partition(",")[0])
