"""Call the hooks of Chainer."""

from functools import partial

import chainer
import numpy as np

from .function import make, make_reversed, make_sliced, make_strided, make_transposed


def step(hook, gradients, *, learning_rate=1.0, **options):
    link = chainer.Link()
    with link.init_scope():
        for index, gradient in enumerate(gradients):
            parameter = chainer.Parameter(np.zeros(1, "float32") if gradient is None else np.zeros_like(gradient))
            parameter.grad = gradient
            setattr(link, f"parameter{index}", parameter)
    optimizer = chainer.optimizers.SGD(learning_rate)
    optimizer.setup(link)
    optimizer.add_hook(hook(**options))
    optimizer.update()
    return [-getattr(link, f"parameter{index}").array for index in range(len(gradients))], None


def clip_by_norm(*, clip_norm):
    return chainer.optimizer_hooks.GradientClipping(clip_norm)


def clip_by_value(*, max, min=None):
    return chainer.optimizer_hooks.GradientHardClipping(-max if min is None else min, max)


ENTRY_POINTS = {
    "chainer.optimizer_hooks.GradientClipping [SGD]": partial(step, clip_by_norm),
    "chainer.optimizer_hooks.GradientHardClipping [SGD]": partial(step, clip_by_value),
}
