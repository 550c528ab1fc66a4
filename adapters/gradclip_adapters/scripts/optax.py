"""Call the clips of Optax."""

from functools import partial

import jax
import jax.numpy as jnp
import optax

jax.config.update("jax_enable_x64", True)


def make(values, dtype):
    return jnp.array(values, dtype)


def run_eagerly(function):
    return function


def transform(function, compile, gradients, *, need_clip=None, parameters=None, **options):
    if isinstance(gradients, list) and parameters is not None:
        # What has no gradient is no parameter.
        parameters = [None if one is None else parameter for one, parameter in zip(gradients, parameters)]
    transformation = function(*options.values())
    if need_clip is not None:
        transformation = optax.masked(transformation, need_clip)
    state = transformation.init(gradients if parameters is None else parameters)
    return compile(transformation.update)(gradients, state, parameters)[0], None


def transform_masked(function, compile, gradients, *, need_clip=None, **options):
    mask = None if need_clip is None else lambda tree: need_clip
    return transform(function, compile, gradients, need_clip=mask, **options)


def clip_examples(compile, gradients, *, clip_norm):
    return compile(optax.per_example_global_norm_clip)(gradients, clip_norm)[0], None


def clip_layers(compile, gradients, *, clip_norm, layers="equal"):
    clip = partial(optax.per_example_layer_norm_clip, uniform=layers != "by size")
    return compile(clip)(gradients, clip_norm)[0], None


def project(function, compile, gradients, **options):
    return compile(function)(gradients, *options.values()), None


def project_on_box(function, compile, gradients, *, max, min):
    return compile(function)(gradients, min, max), None


def project_between_trees(function, compile, gradients, *, max, min):
    lower, upper = ([None if gradient is None else bound for gradient in gradients] for bound in (min, max))
    return compile(function)(gradients, lower, upper), None


def project_on_hypercube(function, compile, gradients, *, max, min=0.0):
    return compile(function)(gradients, max), None


ENTRY_POINTS = {
    "optax.clip[eager]": partial(transform, optax.clip, run_eagerly),
    "optax.clip[jit]": partial(transform, optax.clip, jax.jit),
    "optax.clip_by_block_rms[eager]": partial(transform, optax.clip_by_block_rms, run_eagerly),
    "optax.clip_by_block_rms[jit]": partial(transform, optax.clip_by_block_rms, jax.jit),
    "optax.clip_by_global_norm[eager]": partial(transform, optax.clip_by_global_norm, run_eagerly),
    "optax.clip_by_global_norm[jit]": partial(transform, optax.clip_by_global_norm, jax.jit),
    "optax.adaptive_grad_clip[eager]": partial(transform, optax.adaptive_grad_clip, run_eagerly),
    "optax.adaptive_grad_clip[jit]": partial(transform, optax.adaptive_grad_clip, jax.jit),
    "optax.clip_by_global_norm[eager, mask function]": partial(
        transform_masked, optax.clip_by_global_norm, run_eagerly
    ),
    "optax.clip_by_global_norm[jit, mask function]": partial(transform_masked, optax.clip_by_global_norm, jax.jit),
    "optax.adaptive_grad_clip[eager, mask function]": partial(transform_masked, optax.adaptive_grad_clip, run_eagerly),
    "optax.adaptive_grad_clip[jit, mask function]": partial(transform_masked, optax.adaptive_grad_clip, jax.jit),
    "optax.per_example_global_norm_clip[eager]": partial(clip_examples, run_eagerly),
    "optax.per_example_global_norm_clip[jit]": partial(clip_examples, jax.jit),
    "optax.per_example_layer_norm_clip[eager]": partial(clip_layers, run_eagerly),
    "optax.per_example_layer_norm_clip[jit]": partial(clip_layers, jax.jit),
    "optax.projections.projection_l2_ball[eager]": partial(project, optax.projections.projection_l2_ball, run_eagerly),
    "optax.projections.projection_l2_ball[jit]": partial(project, optax.projections.projection_l2_ball, jax.jit),
    "optax.projections.projection_linf_ball[eager]": partial(
        project, optax.projections.projection_linf_ball, run_eagerly
    ),
    "optax.projections.projection_linf_ball[jit]": partial(project, optax.projections.projection_linf_ball, jax.jit),
    "optax.projections.projection_hypercube[eager]": partial(
        project_on_hypercube, optax.projections.projection_hypercube, run_eagerly
    ),
    "optax.projections.projection_hypercube[jit]": partial(
        project_on_hypercube, optax.projections.projection_hypercube, jax.jit
    ),
    "optax.projections.projection_box[eager, trees as bounds]": partial(
        project_between_trees, optax.projections.projection_box, run_eagerly
    ),
    "optax.projections.projection_box[jit, trees as bounds]": partial(
        project_between_trees, optax.projections.projection_box, jax.jit
    ),
    "optax.projections.projection_box[eager, scalars as bounds]": partial(
        project_on_box, optax.projections.projection_box, run_eagerly
    ),
    "optax.projections.projection_box[jit, scalars as bounds]": partial(
        project_on_box, optax.projections.projection_box, jax.jit
    ),
}
COMPILER = {run_eagerly: jax.jit}
