"""The norm of 25,000,000 elements has a relative error above 1e-5, so the clipped norm is not 1.

Prints:
    True
"""

import torch
from mmengine.optim import OptimWrapper

torch.manual_seed(0)
parameter = torch.nn.Parameter(torch.zeros(25_000_000))
parameter.grad = torch.randn(25_000_000)
OptimWrapper(torch.optim.SGD([parameter], lr=1.0), clip_grad={"max_norm": 1.0}).step()
print(abs(parameter.grad.double().norm().item() - 1) > 1e-5)
