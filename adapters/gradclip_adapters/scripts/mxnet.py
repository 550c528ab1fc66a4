"""Call the clips of MXNet."""

from functools import partial

import mxnet as mx


def make(values, dtype):
    return mx.nd.array(values, dtype=dtype)


def read(tensor):
    return tensor.asnumpy()


def clip_by_norm(gradients, *, clip_norm, **options):
    return gradients, mx.gluon.utils.clip_global_norm(gradients, clip_norm, **options)


def clip_by_value(gradients, *, max, min):
    return [mx.nd.clip(gradient, min, max) for gradient in gradients], None


def step(gradients, *, max, learning_rate=1.0):
    optimizer = mx.optimizer.SGD(learning_rate=learning_rate, clip_gradient=max)
    weights = [mx.nd.zeros(gradient.shape, dtype=gradient.dtype) for gradient in gradients]
    for index, gradient in enumerate(gradients):
        optimizer.update(index, weights[index], gradient, None)
    return [0 - weight for weight in weights], None


ENTRY_POINTS = {
    "mxnet.gluon.utils.clip_global_norm[check_isfinite=True]": partial(clip_by_norm, check_isfinite=True),
    "mxnet.gluon.utils.clip_global_norm[check_isfinite=False]": partial(clip_by_norm, check_isfinite=False),
    "mxnet.nd.clip": clip_by_value,
    "mxnet.optimizer.SGD(clip_gradient)": step,
}
