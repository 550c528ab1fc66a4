"""The norms of a parameter without axes are one norm over all examples, which einsum refuses.

Prints:
    einsum(): the number of subscripts in the e
"""

import torch
from opacus.optimizers import DPPerLayerOptimizer

parameter = torch.nn.Parameter(torch.zeros(()))
parameter.grad_sample = torch.tensor([5.0, 0.5])
sgd = torch.optim.SGD([parameter], lr=1.0)
more = {"noise_multiplier": 0, "expected_batch_size": None, "loss_reduction": "sum"}
try:
    DPPerLayerOptimizer(sgd, max_grad_norm=[1.0], **more).pre_step()
except RuntimeError as error:
    print(str(error)[:43])
