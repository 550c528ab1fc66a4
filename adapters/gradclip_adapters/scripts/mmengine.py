"""Call the clips of MMEngine."""

import torch
from mmengine.optim import OptimWrapper

from .torch import make, make_parameters, make_sliced, make_strided, make_transposed, read_bfloat16


def step(gradients, clip_grad, learning_rate=1.0):
    parameters = make_parameters(gradients)
    OptimWrapper(torch.optim.SGD(parameters, lr=learning_rate), clip_grad=clip_grad).step()
    return [-parameter.detach() for parameter in parameters], None


def clip_by_norm(gradients, *, clip_norm, learning_rate=1.0, **options):
    return step(gradients, {"max_norm": clip_norm, **options}, learning_rate)


def clip_by_value(gradients, *, max, learning_rate=1.0):
    return step(gradients, {"type": "value", "clip_value": max}, learning_rate)


ENTRY_POINTS = {
    "mmengine.optim.OptimWrapper[max_norm]": clip_by_norm,
    "mmengine.optim.OptimWrapper[clip_value]": clip_by_value,
}
