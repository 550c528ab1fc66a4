"""The norm of 25,000,000 elements has a relative error above 1e-5, so the clipped norm is not 1.

Prints:
    True
"""

import torch
from fastai.callback.training import GradientClip
from fastai.data.core import DataLoaders
from fastai.learner import Learner

gradient = torch.randn(25_000_000, generator=torch.Generator().manual_seed(0))
parameter = torch.nn.Parameter(torch.zeros_like(gradient))
parameter.grad = gradient
clip = GradientClip(1.0)
clip.learn = Learner(DataLoaders([], []), torch.nn.ParameterList([parameter]), loss_func=len)
clip.before_step()
print(abs(parameter.grad.double().norm().item() - 1) > 1e-5)
