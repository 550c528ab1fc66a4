"""The coefficient is subnormal, so the result is 17 % too small.

Prints:
    0.8333333333333333
"""

import torch
from fastai.callback.training import GradientClip
from fastai.data.core import DataLoaders
from fastai.learner import Learner

gradient = torch.tensor([3 * 2.0**60, 2.0**62])
parameter = torch.nn.Parameter(torch.zeros_like(gradient))
parameter.grad = gradient
clip = GradientClip(3 * 2.0**-87)
clip.learn = Learner(DataLoaders([], []), torch.nn.ParameterList([parameter]), loss_func=len)
clip.before_step()
print(parameter.grad[1].item() / (3 * 2.0**-87 * 0.8))
