"""The squares underflow, and the returned norm is zero instead of 5e-24.

Prints:
    0.0
"""

import lightning_fabric
import torch

parameter = torch.nn.Parameter(torch.zeros(2))
parameter.grad = torch.tensor([3e-24, 4e-24])
module, optimizer = torch.nn.ParameterList([parameter]), torch.optim.SGD([parameter])
fabric = lightning_fabric.Fabric(accelerator="cpu", devices=1)
norm = fabric.clip_gradients(module, optimizer, max_norm=1e-24)
print(norm.item())
