"""The squares of float16 gradients are summed in float16, where the squares of these are zero. So nothing is clipped.

Prints:
    0.0 unchanged
"""

import torch

gradient = torch.tensor([1e-4, -1e-4], dtype=torch.float16)
parameter = torch.nn.Parameter(torch.zeros(2, dtype=torch.float16))
parameter.grad = gradient.clone()
norm = torch.nn.utils.clip_grad_norm_(parameter, 1e-5)
print(norm.item(), "unchanged" if parameter.grad.equal(gradient) else "clipped")
