"""A clip by value of no gradients raises an error.

Prints:
    Expected !nested_tensorlist[0].empty() to be true,
"""

import lightning_fabric
import torch

parameter = torch.nn.Parameter(torch.zeros(2))
module, optimizer = torch.nn.ParameterList([parameter]), torch.optim.SGD([parameter])
fabric = lightning_fabric.Fabric(accelerator="cpu", devices=1)
try:
    fabric.clip_gradients(module, optimizer, clip_val=1.0)
except RuntimeError as error:
    print(str(error)[:50])
