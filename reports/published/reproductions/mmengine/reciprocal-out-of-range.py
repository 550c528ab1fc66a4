"""In float16, the reciprocal of 1e-6 is infinite, and zero times infinity is NaN.

Prints:
    [nan, nan]
"""

import torch
from mmengine.optim import OptimWrapper

parameter = torch.nn.Parameter(torch.zeros(2, dtype=torch.float16))
parameter.grad = torch.zeros(2, dtype=torch.float16)
OptimWrapper(torch.optim.SGD([parameter], lr=1.0), clip_grad={"max_norm": 0.0}).step()
print(parameter.grad.tolist())
