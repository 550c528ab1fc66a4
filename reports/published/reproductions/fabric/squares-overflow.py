"""The squares overflow, and the infinite norm raises an error.

Prints:
    The total norm of order 2.0 for gradients from `parameters` is non-finite
"""

import lightning_fabric
import torch

parameter = torch.nn.Parameter(torch.zeros(2))
parameter.grad = torch.tensor([3e20, 4e20])
module, optimizer = torch.nn.ParameterList([parameter]), torch.optim.SGD([parameter])
fabric = lightning_fabric.Fabric(accelerator="cpu", devices=1)
try:
    fabric.clip_gradients(module, optimizer, max_norm=1e20)
except RuntimeError as error:
    print(str(error)[:73])
