"""The norm is the threshold, but 1e-6 is added to it.

Prints:
    ['2.5e-06', '3.3e-06']
"""

import timm.utils
import torch

parameter = torch.nn.Parameter(torch.zeros(2))
parameter.grad = torch.tensor([3e-6, 4e-6])
timm.utils.dispatch_clip_grad([parameter], 5e-6)
print([f"{number:.2g}" for number in parameter.grad.tolist()])
