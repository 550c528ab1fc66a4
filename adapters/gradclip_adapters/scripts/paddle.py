"""Call the clips of Paddle. The parameters of an optimizer start at zero.

After one step, the negated parameter is what the optimizer subtracted.
"""

from functools import partial

import numpy as np
import paddle


def make(values, dtype):
    return paddle.to_tensor(np.array(values, dtype))


def make_strided(tensor):
    return tensor.repeat_interleave(2, -1)[..., ::2]


def make_transposed(tensor):
    axes = [*reversed(range(tensor.ndim))]
    return tensor.transpose(axes).contiguous().transpose(axes)


def make_sliced(tensor):
    axes = min(tensor.ndim, 2)
    widths = [0, 0] * (tensor.ndim - 2) + [1, 1] * axes
    return paddle.nn.functional.pad(tensor, widths)[(..., *[slice(1, -1)] * axes)]


def read(tensor):
    return tensor.numpy() if isinstance(tensor, paddle.Tensor) else tensor


def make_parameters(gradients, need_clip=None):
    zero, parameters = paddle.nn.initializer.Constant(0.0), []
    for gradient, flag in zip(gradients, need_clip or [True] * len(gradients)):
        shape, dtype = ([1], "float32") if gradient is None else (list(gradient.shape), gradient.dtype)
        attribute = paddle.ParamAttr(need_clip=flag)
        parameters.append(paddle.create_parameter(shape, dtype, attr=attribute, default_initializer=zero))
    return parameters


def give(gradients, need_clip=None):
    parameters = make_parameters(gradients, need_clip)
    for parameter, gradient in zip(parameters, gradients):
        parameter.grad = gradient
    return parameters


def clip_pairs(clip, gradients, *, need_clip=None, **options):
    parameters = make_parameters(gradients, need_clip)
    clipped = {parameter.name: result for parameter, result in clip(**options)([*zip(parameters, gradients)])}
    return [clipped.get(parameter.name) for parameter in parameters], None


def step_sgd(clip, gradients, *, need_clip=None, learning_rate=1.0, **options):
    parameters = give(gradients, need_clip)
    paddle.optimizer.SGD(learning_rate, parameters=parameters, grad_clip=clip(**options)).step()
    return [-parameter.detach() for parameter in parameters], None


def step_group(clip, gradients, *, need_clip=None, learning_rate=1.0, **options):
    parameters = give(gradients, need_clip)
    group = {"params": parameters, "grad_clip": clip(**options)}
    paddle.optimizer.SGD(learning_rate, parameters=[group]).step()
    return [-parameter.detach() for parameter in parameters], None


def minimize(clip, gradients, *, need_clip=None, learning_rate=1.0, **options):
    parameters = make_parameters(gradients, need_clip)
    loss = build_loss(parameters, gradients)
    loss.backward()
    paddle.optimizer.SGD(learning_rate, parameters=parameters, grad_clip=clip(**options)).minimize(loss)
    return [-parameter.detach() for parameter in parameters], None


def step_adam(optimizer, clip, gradients, *, need_clip=None, **options):
    parameters = give(gradients, need_clip)
    # With `beta1=0`, the first moment is the clipped gradient.
    optimizer = optimizer(beta1=0.0, parameters=parameters, grad_clip=clip(**options))
    optimizer.step()
    moments = [optimizer.state_dict().get(parameter.name + "_moment1_0") for parameter in parameters]
    # A parameter without a gradient has no moment.
    return [paddle.zeros([1]) if one is None else one for one in moments], None


def build_loss(parameters, gradients):
    # The derivatives of the sum of the parameters times the gradients are the gradients.
    pairs = [(parameter, gradient) for parameter, gradient in zip(parameters, gradients) if gradient is not None]
    return sum((parameter * paddle.assign(gradient)).sum().astype("float64") for parameter, gradient in pairs)


def run_static(parameters):
    executor = paddle.static.Executor(paddle.CPUPlace())
    executor.run(paddle.static.default_startup_program())
    executor.run()
    scope = paddle.static.global_scope()
    return [-np.array(scope.find_var(parameter.name).get_tensor()) for parameter in parameters], None


def step_static(clip, gradients, *, need_clip=None, learning_rate=1.0, **options):
    arrays = [None if gradient is None else gradient.numpy() for gradient in gradients]
    paddle.enable_static()
    parameters = make_parameters(arrays, need_clip)
    loss = build_loss(parameters, arrays)
    paddle.optimizer.SGD(learning_rate, grad_clip=clip(**options)).minimize(loss)
    return run_static(parameters)


def set_clip(clip, gradients, *, need_clip=None, learning_rate=1.0, **options):
    arrays = [None if gradient is None else gradient.numpy() for gradient in gradients]
    paddle.enable_static()
    parameters = make_parameters(arrays)
    loss = build_loss(parameters, arrays)
    included = need_clip and [parameter for parameter, flag in zip(parameters, need_clip) if flag]
    paddle.nn.clip.set_gradient_clip(clip(**options), param_list=included)
    paddle.optimizer.SGD(learning_rate).minimize(loss)
    return run_static(parameters)


def clip_errors(clip, gradients, *, need_clip=None, learning_rate=1.0, **options):
    arrays = [None if gradient is None else gradient.numpy() for gradient in gradients]
    paddle.enable_static()
    parameters = make_parameters(arrays)
    copies = [paddle.assign(parameter) for parameter in parameters]
    loss = build_loss(copies, arrays)
    for copy, flag in zip(copies, need_clip or [True] * len(copies)):
        if flag:
            copy._set_error_clip(clip(**options))
    paddle.optimizer.SGD(learning_rate).minimize(loss)
    return run_static(parameters)


def clip_grad_norm(gradients, *, clip_norm, form=list, **options):
    parameters = give(gradients)
    norm = paddle.nn.utils.clip_grad_norm_(form(parameters), clip_norm, **options)
    return [parameter.grad for parameter in parameters], norm


def clip_grad_value(gradients, *, max, form=list):
    parameters = give(gradients)
    paddle.nn.utils.clip_grad_value_(form(parameters), max)
    return [parameter.grad for parameter in parameters], None


def clip_by_norm(gradients, *, clip_norm):
    return [paddle.nn.clip.clip_by_norm(gradient, clip_norm) for gradient in gradients], None


def clip_by_value(function, gradients, *, max, min):
    return [function(gradient, min, max) for gradient in gradients], None


ENTRY_POINTS = {
    "paddle.nn.ClipGradByValue [called]": partial(clip_pairs, paddle.nn.ClipGradByValue),
    "paddle.nn.ClipGradByNorm [called]": partial(clip_pairs, paddle.nn.ClipGradByNorm),
    "paddle.nn.ClipGradByGlobalNorm [called]": partial(clip_pairs, paddle.nn.ClipGradByGlobalNorm),
    "paddle.nn.ClipGradByGlobalNorm [called, auto_skip_clip]": partial(
        clip_pairs, paddle.nn.ClipGradByGlobalNorm, auto_skip_clip=True
    ),
    "paddle.nn.ClipGradByValue [SGD, dynamic]": partial(step_sgd, paddle.nn.ClipGradByValue),
    "paddle.nn.ClipGradByNorm [SGD, dynamic]": partial(step_sgd, paddle.nn.ClipGradByNorm),
    "paddle.nn.ClipGradByGlobalNorm [SGD, dynamic]": partial(step_sgd, paddle.nn.ClipGradByGlobalNorm),
    "paddle.nn.ClipGradByValue [SGD, static]": partial(step_static, paddle.nn.ClipGradByValue),
    "paddle.nn.ClipGradByNorm [SGD, static]": partial(step_static, paddle.nn.ClipGradByNorm),
    "paddle.nn.ClipGradByGlobalNorm [SGD, static]": partial(step_static, paddle.nn.ClipGradByGlobalNorm),
    "paddle.nn.ClipGradByGlobalNorm [SGD.minimize, dynamic]": partial(minimize, paddle.nn.ClipGradByGlobalNorm),
    "paddle.nn.ClipGradByGlobalNorm [Adam, dynamic]": partial(
        step_adam, paddle.optimizer.Adam, paddle.nn.ClipGradByGlobalNorm
    ),
    "paddle.nn.ClipGradByGlobalNorm [AdamW, dynamic]": partial(
        step_adam, paddle.optimizer.AdamW, paddle.nn.ClipGradByGlobalNorm
    ),
    "paddle.nn.ClipGradByGlobalNorm [SGD, a clip in each group]": partial(step_group, paddle.nn.ClipGradByGlobalNorm),
    "paddle.nn.clip.set_gradient_clip [ClipGradByGlobalNorm, static]": partial(
        set_clip, paddle.nn.ClipGradByGlobalNorm
    ),
    "paddle.nn.clip.ErrorClipByValue [static]": partial(clip_errors, paddle.nn.clip.ErrorClipByValue),
    "paddle.nn.utils.clip_grad_norm_": clip_grad_norm,
    "paddle.nn.utils.clip_grad_value_": clip_grad_value,
    "paddle.nn.clip.clip_by_norm": clip_by_norm,
    "paddle.clip": partial(clip_by_value, paddle.clip),
    "paddle.Tensor.clip_": partial(clip_by_value, paddle.Tensor.clip_),
}
COMPILER = {step_sgd: step_static}
