"""The norm of 25,000,000 elements has a relative error above 1e-5, and so has the clipped gradient.

Prints:
    True
"""

import timm.utils
import torch

torch.manual_seed(0)
parameter = torch.nn.Parameter(torch.zeros(25_000_000))
parameter.grad = torch.randn(25_000_000)
right = parameter.grad.double() / parameter.grad.double().norm()
timm.utils.dispatch_clip_grad([parameter], 1.0)
print(((parameter.grad / right - 1).abs().median() > 1e-5).item())
