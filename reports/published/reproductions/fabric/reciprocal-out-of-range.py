"""In float16, the reciprocal of 1e-6 is infinite, and zero times infinity is NaN.

Prints:
    [nan, nan]
"""

import lightning_fabric
import torch

parameter = torch.nn.Parameter(torch.zeros(2, dtype=torch.float16))
parameter.grad = torch.zeros(2, dtype=torch.float16)
module, optimizer = torch.nn.ParameterList([parameter]), torch.optim.SGD([parameter])
fabric = lightning_fabric.Fabric(accelerator="cpu", devices=1)
fabric.clip_gradients(module, optimizer, max_norm=0.0)
print(parameter.grad.tolist())
