"""Call the clips of TensorFlow."""

from functools import partial

import tensorflow as tf


def make(values, dtype):
    return tf.constant(values, dtype)


def run_eagerly(function):
    return function


def clip_by_value(compile, gradients, *, max, min):
    return [compile(tf.clip_by_value)(gradient, min, max) for gradient in gradients], None


def clip_by_norm(compile, gradients, *, clip_norm, **options):
    return [compile(tf.clip_by_norm)(gradient, clip_norm, **options) for gradient in gradients], None


def clip_by_average_norm(compile, gradients, *, clip_norm):
    return [compile(tf.compat.v1.clip_by_average_norm)(gradient, clip_norm) for gradient in gradients], None


def clip_by_global_norm(compile, gradients, *, clip_norm):
    return compile(tf.clip_by_global_norm)(gradients, clip_norm)


def clip_by_given_norm(compile, gradients, *, clip_norm):
    def clip(tensors):
        return tf.clip_by_global_norm(tensors, clip_norm, use_norm=tf.linalg.global_norm(tensors))

    return compile(clip)(gradients)


ENTRY_POINTS = {
    "tf.clip_by_value[eager]": partial(clip_by_value, run_eagerly),
    "tf.clip_by_value[tf.function]": partial(clip_by_value, tf.function),
    "tf.clip_by_value[xla]": partial(clip_by_value, partial(tf.function, jit_compile=True)),
    "tf.clip_by_norm[eager]": partial(clip_by_norm, run_eagerly),
    "tf.clip_by_norm[tf.function]": partial(clip_by_norm, tf.function),
    "tf.clip_by_norm[xla]": partial(clip_by_norm, partial(tf.function, jit_compile=True)),
    "tf.compat.v1.clip_by_average_norm[eager]": partial(clip_by_average_norm, run_eagerly),
    "tf.compat.v1.clip_by_average_norm[tf.function]": partial(clip_by_average_norm, tf.function),
    "tf.clip_by_global_norm[eager]": partial(clip_by_global_norm, run_eagerly),
    "tf.clip_by_global_norm[tf.function]": partial(clip_by_global_norm, tf.function),
    "tf.clip_by_global_norm[xla]": partial(clip_by_global_norm, partial(tf.function, jit_compile=True)),
    "tf.clip_by_global_norm(use_norm=tf.linalg.global_norm)[eager]": partial(clip_by_given_norm, run_eagerly),
    "tf.clip_by_global_norm(use_norm=tf.linalg.global_norm)[tf.function]": partial(clip_by_given_norm, tf.function),
}
COMPILER = {run_eagerly: tf.function}
