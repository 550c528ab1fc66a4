"""Call the clip functions of PyTorch."""

import math
from functools import partial

import torch


def make(values, dtype):
    return torch.tensor(values, dtype=getattr(torch, dtype))


def make_strided(tensor):
    return tensor.repeat_interleave(2, -1)[..., ::2]


def make_transposed(tensor):
    axes = [*reversed(range(tensor.ndim))]
    return tensor.permute(axes).contiguous().permute(axes)


def make_sliced(tensor):
    axes = min(tensor.ndim, 2)
    return torch.nn.functional.pad(tensor, [1, 1] * axes)[(..., *[slice(1, -1)] * axes)]


def make_broadcast(tensor):
    rows = tensor[:1].expand(tensor.shape)
    return rows if torch.equal(rows, tensor) else tensor[..., :1].expand(tensor.shape)


def read_bfloat16(tensor):
    return tensor.double()


def make_parameters(gradients):
    parameters = [torch.nn.Parameter(torch.zeros(1) if one is None else torch.zeros_like(one)) for one in gradients]
    for parameter, gradient in zip(parameters, gradients):
        parameter.grad = gradient
    return parameters


def clip_by_norm(clip, gradients, *, clip_norm, form=list, **options):
    parameters = make_parameters(gradients)
    norm = clip(form(parameters), clip_norm, **options)
    return [parameter.grad for parameter in parameters], norm


def clip_by_value(clip, gradients, *, max, form=list, **options):
    parameters = make_parameters(gradients)
    clip(form(parameters), max, **options)
    return [parameter.grad for parameter in parameters], None


def clip_in_two_steps(gradients, *, clip_norm, form=list, **options):
    parameters = make_parameters(gradients)
    norm = torch.nn.utils.get_total_norm([one for one in gradients if one is not None], **options)
    torch.nn.utils.clip_grads_with_norm_(form(parameters), clip_norm, norm)
    return [parameter.grad for parameter in parameters], norm


def clip_by_own_norm(gradients, *, clip_norm, form=list):
    parameters = make_parameters(gradients)
    values = [value for one in gradients if one is not None for value in one.double().flatten().tolist()]
    norm = torch.tensor(math.hypot(*values), dtype=torch.float64)
    torch.nn.utils.clip_grads_with_norm_(form(parameters), clip_norm, norm)
    return [parameter.grad for parameter in parameters], norm


def step_after_norm(gradients, *, clip_norm, learning_rate=1.0, form=list, **options):
    parameters = make_parameters(gradients)
    norm = torch.nn.utils.clip_grad_norm_(form(parameters), clip_norm, **options)
    torch.optim.SGD(parameters, lr=learning_rate).step()
    return [-parameter.detach() for parameter in parameters], norm


def step_after_value(gradients, *, max, learning_rate=1.0, form=list, **options):
    parameters = make_parameters(gradients)
    torch.nn.utils.clip_grad_value_(form(parameters), max, **options)
    torch.optim.SGD(parameters, lr=learning_rate).step()
    return [-parameter.detach() for parameter in parameters], None


def step_with_scaler(gradients, *, clip_norm, learning_rate=1.0, form=list, **options):
    parameters = [torch.nn.Parameter(torch.zeros(1) if one is None else torch.zeros_like(one)) for one in gradients]
    optimizer = torch.optim.SGD(parameters, lr=learning_rate)
    scaler = torch.amp.GradScaler("cpu")
    pairs = [(parameter, gradient) for parameter, gradient in zip(parameters, gradients) if gradient is not None]
    scaler.scale(sum((parameter * gradient).sum().double() for parameter, gradient in pairs)).backward()
    scaler.unscale_(optimizer)
    norm = torch.nn.utils.clip_grad_norm_(form(parameters), clip_norm, **options)
    scaler.step(optimizer)
    return [-parameter.detach() for parameter in parameters], norm


ENTRY_POINTS = {
    # torch 1 has no parameter `foreach`.
    "torch.nn.utils.clip_grad_norm_": partial(clip_by_norm, torch.nn.utils.clip_grad_norm_),
    "torch.nn.utils.clip_grad_value_": partial(clip_by_value, torch.nn.utils.clip_grad_value_),
    "torch.nn.utils.clip_grad_norm_[foreach=True]": partial(clip_by_norm, torch.nn.utils.clip_grad_norm_, foreach=True),
    "torch.nn.utils.clip_grad_norm_[foreach=False]": partial(
        clip_by_norm, torch.nn.utils.clip_grad_norm_, foreach=False
    ),
    "torch.nn.utils.clip_grad_norm_[foreach=None]": partial(clip_by_norm, torch.nn.utils.clip_grad_norm_, foreach=None),
    "torch.nn.utils.clip_grad_value_[foreach=True]": partial(
        clip_by_value, torch.nn.utils.clip_grad_value_, foreach=True
    ),
    "torch.nn.utils.clip_grad_value_[foreach=False]": partial(
        clip_by_value, torch.nn.utils.clip_grad_value_, foreach=False
    ),
    "torch.nn.utils.clip_grad_value_[foreach=None]": partial(
        clip_by_value, torch.nn.utils.clip_grad_value_, foreach=None
    ),
    "torch.nn.utils.get_total_norm then clip_grads_with_norm_": clip_in_two_steps,
    "torch.nn.utils.clip_grads_with_norm_ with a float64 norm": clip_by_own_norm,
    "torch.nn.utils.clip_grad_norm_ then torch.optim.SGD": step_after_norm,
    "torch.nn.utils.clip_grad_value_ then torch.optim.SGD": step_after_value,
    "torch.nn.utils.clip_grad_norm_ then torch.amp.GradScaler.step": step_with_scaler,
}
COMPILED = {
    "torch.nn.utils.clip_grad_norm_[foreach=None]": partial(
        clip_by_norm, torch.compile(torch.nn.utils.clip_grad_norm_), foreach=None
    ),
    "torch.nn.utils.clip_grad_value_[foreach=None]": partial(
        clip_by_value, torch.compile(torch.nn.utils.clip_grad_value_), foreach=None
    ),
}
