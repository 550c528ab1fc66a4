"""Call the clip of FairScale."""

import torch
from fairscale.optim import OSS

from .torch import make, make_parameters, make_sliced, make_strided, make_transposed, read_bfloat16

torch.distributed.init_process_group("gloo", store=torch.distributed.HashStore(), rank=0, world_size=1)


def clip(gradients, *, clip_norm, **options):
    parameters = make_parameters(gradients)
    norm = OSS(parameters, torch.optim.SGD, lr=1.0).clip_grad_norm(clip_norm, **options)
    return [parameter.grad for parameter in parameters], norm


ENTRY_POINTS = {"fairscale.optim.OSS.clip_grad_norm": clip}
