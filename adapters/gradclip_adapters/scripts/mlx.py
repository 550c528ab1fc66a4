"""Call the clips of MLX."""

from functools import partial

import mlx.core as mx
from mlx.nn.utils import clip_grad_norm_sharded
from mlx.optimizers import clip_grad_norm


def make(values, dtype):
    return mx.array(values, getattr(mx, dtype))


def make_strided(tensor):
    return mx.repeat(tensor, 2, axis=-1)[..., ::2]


def make_transposed(tensor):
    return mx.contiguous(tensor.T).T


def make_sliced(tensor):
    axes = min(tensor.ndim, 2)
    widths = [(0, 0)] * (tensor.ndim - 2) + [(1, 1)] * axes
    return mx.pad(tensor, widths)[(..., *[slice(1, -1)] * axes)]


def read_bfloat16(tensor):
    return tensor.astype(mx.float32)


def clip(function, gradients, *, clip_norm):
    return function(gradients, clip_norm)


ENTRY_POINTS = {
    "mlx.optimizers.clip_grad_norm": partial(clip, clip_grad_norm),
    "mlx.nn.utils.clip_grad_norm_sharded": partial(clip, clip_grad_norm_sharded),
}
COMPILER = {clip_grad_norm: mx.compile(clip_grad_norm)}
