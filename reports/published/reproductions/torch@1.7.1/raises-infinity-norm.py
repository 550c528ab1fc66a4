"""The infinity norm of float16 gradients has no kernel on the CPU, while norms of other orders have one.

Prints:
    7.0
    "max_all" not implemented for 'Half'
"""

import torch

for order in (1.0, float("inf")):
    parameter = torch.nn.Parameter(torch.zeros(2, dtype=torch.float16))
    parameter.grad = torch.tensor([3.0, -4.0], dtype=torch.float16)
    try:
        print(torch.nn.utils.clip_grad_norm_(parameter, 1.0, norm_type=order).item())
    except RuntimeError as error:
        print(error)
