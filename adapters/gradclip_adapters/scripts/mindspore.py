"""Call the clips of MindSpore."""

from functools import partial

import mindspore
import numpy as np
from mindspore import nn, ops


def make(values, dtype):
    return mindspore.Tensor(np.array(values, dtype))


def make_strided(tensor):
    return mindspore.Tensor(np.repeat(tensor.asnumpy(), 2, -1))[..., ::2]


def make_transposed(tensor):
    return mindspore.Tensor(tensor.asnumpy().T.copy()).T


def make_sliced(tensor):
    axes = min(tensor.ndim, 2)
    widths = [(0, 0)] * (tensor.ndim - 2) + [(1, 1)] * axes
    return mindspore.Tensor(np.pad(tensor.asnumpy(), widths, mode="edge"))[(..., *[slice(1, -1)] * axes)]


def read(tensor):
    return tensor.asnumpy()


def run_eagerly(function):
    return function


def clip_by_norm(compile, gradients, *, clip_norm, **options):
    return compile(ops.clip_by_norm)(gradients, clip_norm, **options), None


def clip_by_global_norm(compile, gradients, *, clip_norm):
    return compile(ops.clip_by_global_norm)(gradients, clip_norm), None


def clip_by_value(compile, gradients, *, max, min):
    return compile(ops.clip_by_value)(gradients, min, max), None


def clip_each(compile, gradients, *, clip_norm, axes=None):
    clip = compile(nn.ClipByNorm(axes))
    return [clip(gradient, mindspore.Tensor(clip_norm, mindspore.float32)) for gradient in gradients], None


ENTRY_POINTS = {
    "mindspore.ops.clip_by_norm": partial(clip_by_norm, run_eagerly),
    "mindspore.ops.clip_by_global_norm": partial(clip_by_global_norm, run_eagerly),
    "mindspore.ops.clip_by_value": partial(clip_by_value, run_eagerly),
    "mindspore.nn.ClipByNorm": partial(clip_each, run_eagerly),
}
COMPILER = {run_eagerly: mindspore.jit}
