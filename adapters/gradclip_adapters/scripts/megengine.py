"""Call the clips of MegEngine."""

import megengine
import numpy as np
from megengine.optimizer import clip_grad_norm, clip_grad_value


def make(values, dtype):
    return megengine.Tensor(np.array(values, dtype))


def make_strided(tensor):
    return megengine.Tensor(np.repeat(tensor.numpy(), 2, -1))[..., ::2]


def make_transposed(tensor):
    return megengine.Tensor(tensor.numpy().T.copy()).T


def make_sliced(tensor):
    axes = min(tensor.ndim, 2)
    widths = [(0, 0)] * (tensor.ndim - 2) + [(1, 1)] * axes
    return megengine.Tensor(np.pad(tensor.numpy(), widths, mode="edge"))[(..., *[slice(1, -1)] * axes)]


def read(tensor):
    return tensor.numpy()


def make_parameters(gradients):
    forms = [((1,), "float32") if one is None else (one.shape, one.dtype) for one in gradients]
    parameters = [megengine.Parameter(np.zeros(*form)) for form in forms]
    for parameter, gradient in zip(parameters, gradients):
        parameter.grad = gradient
    return parameters


def clip_by_norm(gradients, *, clip_norm, norm_type=2.0, form=list):
    parameters = make_parameters(gradients)
    norm = clip_grad_norm(form(parameters), clip_norm, norm_type)
    return [parameter.grad for parameter in parameters], norm


def clip_by_value(gradients, *, max, min, form=list):
    parameters = make_parameters(gradients)
    clip_grad_value(form(parameters), min, max)
    return [parameter.grad for parameter in parameters], None


ENTRY_POINTS = {
    "megengine.optimizer.clip_grad_norm": clip_by_norm,
    "megengine.optimizer.clip_grad_value": clip_by_value,
}
