"""Call the clips of the packages on torch that are rows of `frameworks.torch_based.wrappers`."""

from functools import partial

import accelerate
import lightning_fabric
import timm.utils
import torch
from fastai.callback.training import GradientClip
from fastai.data.core import DataLoaders
from fastai.learner import Learner
from fastai.optimizer import SGD
from mmengine.optim import OptimWrapper
from skorch.callbacks import GradientNormClipping
from torchtitan.distributed.utils import clip_grad_norm_

from .torch import (
    clip_by_norm,
    clip_by_value,
    make,
    make_parameters,
    make_sliced,
    make_strided,
    make_transposed,
    read_bfloat16,
)


def clip_by_fabric(gradients, **options):
    parameters = make_parameters(gradients)
    module, optimizer = torch.nn.ParameterList(parameters), torch.optim.SGD(parameters)
    fabric = lightning_fabric.Fabric(accelerator="cpu", devices=1)
    norm = fabric.clip_gradients(module, optimizer, **options)
    return [parameter.grad for parameter in parameters], norm


def clip_norm_by_fabric(gradients, *, clip_norm, **options):
    return clip_by_fabric(gradients, max_norm=clip_norm, **options)


def clip_value_by_fabric(gradients, *, max):
    return clip_by_fabric(gradients, clip_val=max)


def step_by_fastai(gradients, *, clip_norm, learning_rate=1.0, **options):
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


def step_by_mmengine(gradients, clip_grad, learning_rate=1.0):
    parameters = make_parameters(gradients)
    OptimWrapper(torch.optim.SGD(parameters, lr=learning_rate), clip_grad=clip_grad).step()
    return [-parameter.detach() for parameter in parameters], None


def clip_norm_by_mmengine(gradients, *, clip_norm, learning_rate=1.0, **options):
    return step_by_mmengine(gradients, {"max_norm": clip_norm, **options}, learning_rate)


def clip_value_by_mmengine(gradients, *, max, learning_rate=1.0):
    return step_by_mmengine(gradients, {"type": "value", "clip_value": max}, learning_rate)


def clip_by_skorch(gradients, *, clip_norm, norm_type=2, form=list):
    parameters = make_parameters(gradients)
    GradientNormClipping(clip_norm, norm_type).on_grad_computed(None, enumerate(form(parameters)))
    return [parameter.grad for parameter in parameters], None


def clip_units(clip, gradients, *, clip_factor, parameters, form=list, **options):
    parameters = [torch.nn.Parameter(values) for values in parameters]
    for parameter, gradient in zip(parameters, gradients):
        parameter.grad = gradient
    clip(form(parameters), clip_factor, **options)
    return [parameter.grad for parameter in parameters], None


ENTRY_POINTS = {
    "accelerate.Accelerator.clip_grad_norm_": partial(clip_by_norm, accelerate.Accelerator(cpu=True).clip_grad_norm_),
    "accelerate.Accelerator.clip_grad_value_": partial(
        clip_by_value, accelerate.Accelerator(cpu=True).clip_grad_value_
    ),
    "lightning_fabric.Fabric.clip_gradients[max_norm]": clip_norm_by_fabric,
    "lightning_fabric.Fabric.clip_gradients[clip_val]": clip_value_by_fabric,
    "fastai.callback.training.GradientClip": step_by_fastai,
    "mmengine.optim.OptimWrapper[max_norm]": clip_norm_by_mmengine,
    "mmengine.optim.OptimWrapper[clip_value]": clip_value_by_mmengine,
    "skorch.callbacks.GradientNormClipping": clip_by_skorch,
    "timm.utils.dispatch_clip_grad[norm]": partial(clip_by_norm, timm.utils.dispatch_clip_grad, mode="norm"),
    "timm.utils.dispatch_clip_grad[value]": partial(clip_by_value, timm.utils.dispatch_clip_grad, mode="value"),
    "timm.utils.dispatch_clip_grad[agc]": partial(clip_units, timm.utils.dispatch_clip_grad, mode="agc"),
    "timm.utils.adaptive_clip_grad": partial(clip_units, timm.utils.adaptive_clip_grad),
    "torchtitan.distributed.utils.clip_grad_norm_[foreach=True]": partial(clip_by_norm, clip_grad_norm_, foreach=True),
    "torchtitan.distributed.utils.clip_grad_norm_[foreach=False]": partial(
        clip_by_norm, clip_grad_norm_, foreach=False
    ),
    "torchtitan.distributed.utils.clip_grad_norm_[foreach=None]": partial(clip_by_norm, clip_grad_norm_, foreach=None),
}
