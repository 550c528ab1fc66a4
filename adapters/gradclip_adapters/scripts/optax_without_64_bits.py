"""Call the clips of Optax while arrays of 64 bits do not exist, which is the default."""

from functools import partial

import jax
import optax

from .optax import clip_examples, make, run_eagerly, transform

ENTRY_POINTS = {
    "optax.clip[eager, without 64 bits]": partial(transform, optax.clip, run_eagerly),
    "optax.clip[jit, without 64 bits]": partial(transform, optax.clip, jax.jit),
    "optax.clip_by_block_rms[eager, without 64 bits]": partial(transform, optax.clip_by_block_rms, run_eagerly),
    "optax.clip_by_block_rms[jit, without 64 bits]": partial(transform, optax.clip_by_block_rms, jax.jit),
    "optax.clip_by_global_norm[eager, without 64 bits]": partial(transform, optax.clip_by_global_norm, run_eagerly),
    "optax.clip_by_global_norm[jit, without 64 bits]": partial(transform, optax.clip_by_global_norm, jax.jit),
    "optax.adaptive_grad_clip[eager, without 64 bits]": partial(transform, optax.adaptive_grad_clip, run_eagerly),
    "optax.adaptive_grad_clip[jit, without 64 bits]": partial(transform, optax.adaptive_grad_clip, jax.jit),
    "optax.per_example_global_norm_clip[eager, without 64 bits]": partial(clip_examples, run_eagerly),
    "optax.per_example_global_norm_clip[jit, without 64 bits]": partial(clip_examples, jax.jit),
}
COMPILER = {run_eagerly: jax.jit}
