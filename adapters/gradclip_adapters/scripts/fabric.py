"""Call the clips of Lightning Fabric."""

import lightning_fabric
import torch

from .torch import make, make_parameters, make_sliced, make_strided, make_transposed, read_bfloat16


def clip(gradients, **options):
    parameters = make_parameters(gradients)
    module, optimizer = torch.nn.ParameterList(parameters), torch.optim.SGD(parameters)
    fabric = lightning_fabric.Fabric(accelerator="cpu", devices=1)
    norm = fabric.clip_gradients(module, optimizer, **options)
    return [parameter.grad for parameter in parameters], norm


def clip_by_norm(gradients, *, clip_norm, **options):
    return clip(gradients, max_norm=clip_norm, **options)


def clip_by_value(gradients, *, max):
    return clip(gradients, clip_val=max)


ENTRY_POINTS = {
    "lightning_fabric.Fabric.clip_gradients[max_norm]": clip_by_norm,
    "lightning_fabric.Fabric.clip_gradients[clip_val]": clip_by_value,
}
