"""Call the clips of JAX's example optimizers."""

from functools import partial

import jax
import jax.numpy as jnp
from jax.example_libraries.optimizers import clip_grads, l2_norm

jax.config.update("jax_enable_x64", True)


def make(values, dtype):
    return jnp.array(values, dtype)


def clip(compile, gradients, *, clip_norm):
    return compile(lambda tree: clip_grads(tree, clip_norm))(gradients), None


def clip_and_norm(compile, gradients, *, clip_norm):
    return compile(lambda tree: (clip_grads(tree, clip_norm), l2_norm(tree)))(gradients)


def run_eagerly(function):
    return function


ENTRY_POINTS = {
    "jax.example_libraries.optimizers.clip_grads[eager]": partial(clip, run_eagerly),
    "jax.example_libraries.optimizers.clip_grads[jit]": partial(clip, jax.jit),
    "jax.example_libraries.optimizers.l2_norm then clip_grads[eager]": partial(clip_and_norm, run_eagerly),
    "jax.example_libraries.optimizers.l2_norm then clip_grads[jit]": partial(clip_and_norm, jax.jit),
}
COMPILER = {run_eagerly: jax.jit}
