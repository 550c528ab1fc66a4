"""In float16, the reciprocal of 1e-6 is infinite, and zero times infinity is NaN.

Prints:
    [nan, nan]
"""

import torch
from fastai.callback.training import GradientClip
from fastai.data.core import DataLoaders
from fastai.learner import Learner

gradient = torch.zeros(2, dtype=torch.float16)
parameter = torch.nn.Parameter(torch.zeros_like(gradient))
parameter.grad = gradient
clip = GradientClip(0.0)
clip.learn = Learner(DataLoaders([], []), torch.nn.ParameterList([parameter]), loss_func=len)
clip.before_step()
print(parameter.grad.tolist())
