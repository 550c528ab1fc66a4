"""Call the clips of thinc."""

import numpy as np
from thinc.api import SGD, NumpyOps

from .function import make, make_reversed, make_sliced, make_strided, make_transposed


def step(gradients, *, clip_norm, learning_rate=1.0):
    optimizer = SGD(learning_rate, grad_clip=clip_norm, use_averages=False)
    return [-optimizer((0, "W"), np.zeros_like(gradient), gradient)[0] for gradient in gradients], None


def clip(gradients, *, clip_norm):
    return [NumpyOps().clip_gradient(gradient, clip_norm) for gradient in gradients], None


ENTRY_POINTS = {"thinc.api.SGD(grad_clip)": step, "thinc.api.NumpyOps.clip_gradient": clip}
