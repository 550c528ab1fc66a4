"""A gradient that appears twice is scaled twice: 8 becomes 0.5, not 2.

Prints:
    0.5
"""

import torch
from skorch.callbacks import GradientNormClipping

parameter = torch.nn.Parameter(torch.zeros(1))
parameter.grad = torch.tensor([8.0])
GradientNormClipping(4.0, gradient_clip_norm_type=1).on_grad_computed(None, [("one", parameter), ("two", parameter)])
print(f"{parameter.grad.item():.4g}")
