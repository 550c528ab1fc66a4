"""A negative threshold flips the signs.

Prints:
    [-1.0, 1.0]
"""

import torch
from fastai.callback.training import GradientClip
from fastai.data.core import DataLoaders
from fastai.learner import Learner

gradient = torch.tensor([3.0, -4.0])
parameter = torch.nn.Parameter(torch.zeros_like(gradient))
parameter.grad = gradient
clip = GradientClip(-5.0)
clip.learn = Learner(DataLoaders([], []), torch.nn.ParameterList([parameter]), loss_func=len)
clip.before_step()
print(parameter.grad.sign().tolist())
