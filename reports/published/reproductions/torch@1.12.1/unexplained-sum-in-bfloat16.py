"""The norm of order 1 adds in bfloat16: the sum of 4096 ones stops at 256. The norm of order 2 is right.

Prints:
    256.0 64.0
"""

import torch


def clip(order):
    parameter = torch.nn.Parameter(torch.zeros(4096, dtype=torch.bfloat16))
    parameter.grad = torch.ones(4096, dtype=torch.bfloat16)
    return torch.nn.utils.clip_grad_norm_(parameter, 64.0, norm_type=order).item()


print(clip(1), clip(2))
