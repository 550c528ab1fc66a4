"""The norm is the threshold, but 1e-6 is added to it.

Prints:
    ['2.5e-06', '3.3e-06']
"""

import torch
from mmengine.optim import OptimWrapper

parameter = torch.nn.Parameter(torch.zeros(2))
parameter.grad = torch.tensor([3e-6, 4e-6])
OptimWrapper(torch.optim.SGD([parameter], lr=1.0), clip_grad={"max_norm": 5e-6}).step()
print([f"{number:.2g}" for number in parameter.grad.tolist()])
