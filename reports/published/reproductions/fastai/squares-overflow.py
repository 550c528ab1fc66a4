"""The squares overflow, and the infinite norm makes every gradient zero.

Prints:
    [0.0, 0.0]
"""

import torch
from fastai.callback.training import GradientClip
from fastai.data.core import DataLoaders
from fastai.learner import Learner

gradient = torch.tensor([3e20, 4e20])
parameter = torch.nn.Parameter(torch.zeros_like(gradient))
parameter.grad = gradient
clip = GradientClip(1e20)
clip.learn = Learner(DataLoaders([], []), torch.nn.ParameterList([parameter]), loss_func=len)
clip.before_step()
print(parameter.grad.tolist())
