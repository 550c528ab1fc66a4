"""Call the clips of fluid (Paddle 1.8). The parameters of an optimizer start at zero, as in `paddle`."""

from functools import partial

import numpy as np
from paddle import fluid


def make(values, dtype):
    return np.array(values, dtype)


def make_parameters(gradients):
    zero, forms = (
        fluid.initializer.Constant(0.0),
        [([1], "float32") if g is None else (g.shape, g.dtype) for g in gradients],
    )
    return [fluid.layers.create_parameter(list(shape), str(dtype), default_initializer=zero) for shape, dtype in forms]


def build_loss(parameters, data):
    # The derivatives of the sum of the parameters times the gradients are the gradients.
    pairs = [(parameter, one) for parameter, one in zip(parameters, data) if one is not None]
    return sum(fluid.layers.reduce_sum(parameter * one) for parameter, one in pairs)


def make_data(gradients):
    fluid.disable_dygraph()
    feed = {"g%d" % number: one for number, one in enumerate(gradients) if one is not None}
    data = [
        None if one is None else fluid.data("g%d" % number, one.shape, str(one.dtype))
        for number, one in enumerate(gradients)
    ]
    return data, feed


def run_static(parameters, feed, fetch_list=()):
    executor = fluid.Executor(fluid.CPUPlace())
    executor.run(fluid.default_startup_program())
    fetched = executor.run(feed=feed, fetch_list=list(fetch_list))
    if fetch_list:
        return fetched
    scope = fluid.global_scope()
    return [-np.array(scope.find_var(parameter.name).get_tensor()) for parameter in parameters]


def choose(parameters, need_clip):
    if need_clip is None:
        return {}
    flags = dict(zip([parameter.name for parameter in parameters], need_clip))
    return {"need_clip": lambda parameter: flags[parameter.name]}


def step_dygraph(clip, gradients, *, need_clip=None, learning_rate=1.0, **options):
    fluid.enable_dygraph(fluid.CPUPlace())
    parameters = make_parameters(gradients)
    loss = build_loss(parameters, [one if one is None else fluid.dygraph.to_variable(one) for one in gradients])
    loss.backward()
    grad_clip = clip(**options, **choose(parameters, need_clip))
    fluid.optimizer.SGDOptimizer(learning_rate, parameter_list=parameters, grad_clip=grad_clip).minimize(loss)
    return [-parameter.numpy() for parameter in parameters], None


def step_static(clip, gradients, *, need_clip=None, learning_rate=1.0, **options):
    data, feed = make_data(gradients)
    parameters = make_parameters(gradients)
    grad_clip = clip(**options, **choose(parameters, need_clip))
    fluid.optimizer.SGDOptimizer(learning_rate, grad_clip=grad_clip).minimize(build_loss(parameters, data))
    return run_static(parameters, feed), None


def set_clip(clip, gradients, *, need_clip=None, **options):
    data, feed = make_data(gradients)
    parameters = make_parameters(gradients)
    included = need_clip and [parameter for parameter, flag in zip(parameters, need_clip) if flag]
    loss = build_loss(parameters, data)
    fluid.clip.set_gradient_clip(clip(**options), param_list=included)
    pairs = fluid.clip.append_gradient_clip_ops(fluid.backward.append_backward(loss))
    fetched = run_static(parameters, feed, [gradient for _, gradient in pairs])
    clipped = dict(zip([parameter.name for parameter, _ in pairs], fetched))
    return [clipped.get(parameter.name) for parameter in parameters], None


def set_two_clips(clip, gradients, *, need_clip=None, learning_rate=1.0, **options):
    data, feed = make_data(gradients)
    parameters = make_parameters(gradients)
    loss = build_loss(parameters, data)
    other = fluid.layers.create_parameter([1], loss.dtype, default_initializer=fluid.initializer.Constant(0.0))
    included = [one for one, flag in zip(parameters, need_clip or [True] * len(parameters)) if flag]
    fluid.clip.set_gradient_clip(clip(**options), included)
    fluid.clip.set_gradient_clip(fluid.clip.GradientClipByValue(float("inf")), [other])
    fluid.optimizer.SGDOptimizer(learning_rate).minimize(loss + fluid.layers.reduce_sum(other))
    return run_static(parameters, feed), None


def clip_errors(clip, gradients, *, need_clip=None, learning_rate=1.0, **options):
    data, feed = make_data(gradients)
    parameters = make_parameters(gradients)
    copies = [fluid.layers.assign(parameter) for parameter in parameters]
    loss = build_loss(copies, data)
    for copy, flag in zip(copies, need_clip or [True] * len(copies)):
        if flag:
            copy._set_error_clip(clip(**options))
    fluid.optimizer.SGDOptimizer(learning_rate).minimize(loss)
    return run_static(parameters, feed), None


ENTRY_POINTS = {
    "paddle.fluid.clip.GradientClipByValue [SGD, dygraph]": partial(step_dygraph, fluid.clip.GradientClipByValue),
    "paddle.fluid.clip.GradientClipByValue [SGD, static]": partial(step_static, fluid.clip.GradientClipByValue),
    "paddle.fluid.clip.GradientClipByValue [set_gradient_clip, static]": partial(
        set_clip, fluid.clip.GradientClipByValue
    ),
    "paddle.fluid.clip.set_gradient_clip [GradientClipByValue beside another, static]": partial(
        set_two_clips, fluid.clip.GradientClipByValue
    ),
    "paddle.fluid.clip.GradientClipByNorm [SGD, dygraph]": partial(step_dygraph, fluid.clip.GradientClipByNorm),
    "paddle.fluid.clip.GradientClipByNorm [SGD, static]": partial(step_static, fluid.clip.GradientClipByNorm),
    "paddle.fluid.clip.GradientClipByNorm [set_gradient_clip, static]": partial(
        set_clip, fluid.clip.GradientClipByNorm
    ),
    "paddle.fluid.clip.set_gradient_clip [GradientClipByNorm beside another, static]": partial(
        set_two_clips, fluid.clip.GradientClipByNorm
    ),
    "paddle.fluid.clip.GradientClipByGlobalNorm [SGD, dygraph]": partial(
        step_dygraph, fluid.clip.GradientClipByGlobalNorm
    ),
    "paddle.fluid.clip.GradientClipByGlobalNorm [SGD, static]": partial(
        step_static, fluid.clip.GradientClipByGlobalNorm
    ),
    "paddle.fluid.clip.GradientClipByGlobalNorm [set_gradient_clip, static]": partial(
        set_clip, fluid.clip.GradientClipByGlobalNorm
    ),
    "paddle.fluid.clip.set_gradient_clip [GradientClipByGlobalNorm beside another, static]": partial(
        set_two_clips, fluid.clip.GradientClipByGlobalNorm
    ),
    "paddle.fluid.clip.ErrorClipByValue [static]": partial(clip_errors, fluid.clip.ErrorClipByValue),
}
COMPILER = {step_dygraph: step_static}
