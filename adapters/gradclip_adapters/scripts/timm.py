"""Call the clips of timm."""

from functools import partial

import timm.utils
import torch

from .torch import clip_by_norm, clip_by_value, make, make_sliced, make_strided, make_transposed, read_bfloat16


def clip_units(clip, gradients, *, clip_factor, parameters, form=list, **options):
    parameters = [torch.nn.Parameter(values) for values in parameters]
    for parameter, gradient in zip(parameters, gradients):
        parameter.grad = gradient
    clip(form(parameters), clip_factor, **options)
    return [parameter.grad for parameter in parameters], None


ENTRY_POINTS = {
    "timm.utils.dispatch_clip_grad[norm]": partial(clip_by_norm, timm.utils.dispatch_clip_grad, mode="norm"),
    "timm.utils.dispatch_clip_grad[value]": partial(clip_by_value, timm.utils.dispatch_clip_grad, mode="value"),
    "timm.utils.dispatch_clip_grad[agc]": partial(clip_units, timm.utils.dispatch_clip_grad, mode="agc"),
    "timm.utils.adaptive_clip_grad": partial(clip_units, timm.utils.adaptive_clip_grad),
}
