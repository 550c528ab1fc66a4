"""Call the clip of fastai."""

import torch
from fastai.callback.training import GradientClip
from fastai.data.core import DataLoaders
from fastai.learner import Learner
from fastai.optimizer import SGD

from .torch import make, make_parameters, read_bfloat16


def step(gradients, *, clip_norm, learning_rate=1.0, **options):
    parameters = make_parameters(gradients)
    model = torch.nn.ParameterList(parameters)
    learner = Learner(DataLoaders([], []), model, loss_func=len, opt_func=SGD, lr=learning_rate, train_bn=False)
    learner.create_opt()
    clip = GradientClip(clip_norm, **options)
    clip.learn = learner
    clip.before_step()
    learner.opt.set_hyper("lr", learning_rate)
    learner.opt.step()
    return [-parameter.detach() for parameter in parameters], None


ENTRY_POINTS = {"fastai.callback.training.GradientClip": step}
