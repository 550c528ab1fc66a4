"""A negative threshold flips the signs.

Prints:
    [-1.0, 1.0]
"""

import lightning_fabric
import torch

parameter = torch.nn.Parameter(torch.zeros(2))
parameter.grad = torch.tensor([3.0, -4.0])
module, optimizer = torch.nn.ParameterList([parameter]), torch.optim.SGD([parameter])
fabric = lightning_fabric.Fabric(accelerator="cpu", devices=1)
fabric.clip_gradients(module, optimizer, max_norm=-5.0)
print(parameter.grad.sign().tolist())
