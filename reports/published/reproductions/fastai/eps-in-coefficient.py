"""The norm is the threshold, but 1e-6 is added to it.

Prints:
    ['2.5e-06', '3.3e-06']
"""

import torch
from fastai.callback.training import GradientClip
from fastai.data.core import DataLoaders
from fastai.learner import Learner

gradient = torch.tensor([3e-6, 4e-6])
parameter = torch.nn.Parameter(torch.zeros_like(gradient))
parameter.grad = gradient
clip = GradientClip(5e-6)
clip.learn = Learner(DataLoaders([], []), torch.nn.ParameterList([parameter]), loss_func=len)
clip.before_step()
print([f"{number:.2g}" for number in parameter.grad.tolist()])
