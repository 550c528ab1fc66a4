"""A bound beyond the range of float32 raises an error.

Prints:
    value cannot be converted to type float without overflow
"""

import lightning_fabric
import torch

parameter = torch.nn.Parameter(torch.zeros(2))
parameter.grad = torch.tensor([3.0, 4.0])
module, optimizer = torch.nn.ParameterList([parameter]), torch.optim.SGD([parameter])
fabric = lightning_fabric.Fabric(accelerator="cpu", devices=1)
try:
    fabric.clip_gradients(module, optimizer, clip_val=1e300)
except RuntimeError as error:
    print(error)
