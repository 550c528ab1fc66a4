"""A bound beyond the range of float32 raises an error.

Prints:
    value cannot be converted to type float without overflow
"""

import torch
from mmengine.optim import OptimWrapper

parameter = torch.nn.Parameter(torch.zeros(2))
parameter.grad = torch.tensor([3.0, 4.0])
try:
    OptimWrapper(torch.optim.SGD([parameter], lr=1.0), clip_grad={"type": "value", "clip_value": 1e300}).step()
except RuntimeError as error:
    print(error)
