"""The norm 80000 is beyond float16, and the infinite norm makes every gradient zero.

Prints:
    [0.0, 0.0, 0.0, 0.0]
"""

import torch
from fastai.callback.training import GradientClip
from fastai.data.core import DataLoaders
from fastai.learner import Learner

gradient = torch.full((4,), 40000.0, dtype=torch.float16)
parameter = torch.nn.Parameter(torch.zeros_like(gradient))
parameter.grad = gradient
clip = GradientClip(20000.0)
clip.learn = Learner(DataLoaders([], []), torch.nn.ParameterList([parameter]), loss_func=len)
clip.before_step()
print(parameter.grad.tolist())
