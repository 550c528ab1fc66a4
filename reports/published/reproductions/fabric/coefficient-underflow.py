"""The coefficient is subnormal, so the result is 17 % too small.

Prints:
    0.8333333333333333
"""

import lightning_fabric
import torch

parameter = torch.nn.Parameter(torch.zeros(2))
parameter.grad = torch.tensor([3 * 2.0**60, 2.0**62])
module, optimizer = torch.nn.ParameterList([parameter]), torch.optim.SGD([parameter])
fabric = lightning_fabric.Fabric(accelerator="cpu", devices=1)
fabric.clip_gradients(module, optimizer, max_norm=3 * 2.0**-87)
print(parameter.grad[1].item() / (3 * 2.0**-87 * 0.8))
