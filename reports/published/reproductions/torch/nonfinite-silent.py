"""A step with an infinite gradient is skipped, as documented: nothing is raised, and the parameter stays.

Prints:
    [0.0, 0.0]
"""

import torch

parameter = torch.nn.Parameter(torch.zeros(2))
optimizer, scaler = torch.optim.SGD([parameter], lr=1.0), torch.amp.GradScaler("cpu")
scaler.scale((parameter * torch.tensor([3.0, float("inf")])).sum()).backward()
scaler.unscale_(optimizer)
torch.nn.utils.clip_grad_norm_([parameter], 1.0)
scaler.step(optimizer)
print(parameter.tolist())
