"""The norm of 25,000,000 elements has a relative error above 1e-5.

Prints:
    True
"""

import lightning_fabric
import torch

torch.manual_seed(0)
parameter = torch.nn.Parameter(torch.zeros(25_000_000))
parameter.grad = torch.randn(25_000_000)
right = parameter.grad.double().norm().item()
module, optimizer = torch.nn.ParameterList([parameter]), torch.optim.SGD([parameter])
fabric = lightning_fabric.Fabric(accelerator="cpu", devices=1)
norm = fabric.clip_gradients(module, optimizer, max_norm=1.0)
print(abs(norm.item() / right - 1) > 1e-5)
