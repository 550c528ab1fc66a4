"""A gradient without elements has no infinity norm.

Prints:
    cannot compute the infinity norm on an empty tensor
"""

import torch
from fastai.callback.training import GradientClip
from fastai.data.core import DataLoaders
from fastai.learner import Learner

gradient = torch.zeros(0)
parameter = torch.nn.Parameter(torch.zeros_like(gradient))
parameter.grad = gradient
clip = GradientClip(1.0, norm_type=float("inf"))
clip.learn = Learner(DataLoaders([], []), torch.nn.ParameterList([parameter]), loss_func=len)
try:
    clip.before_step()
except RuntimeError as error:
    print(str(error)[str(error).index("cannot") :][:51])
