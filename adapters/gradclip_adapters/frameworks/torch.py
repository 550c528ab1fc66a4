"""Adapt PyTorch: the clip functions of `torch.nn.utils`, called on real parameters, on the CPU or another device."""

from __future__ import annotations

import math
import os
import shutil
from dataclasses import replace
from typing import Any, Callable, Iterator, Mapping, Sequence

import torch
from torch.nn import Parameter, utils

from ..arrays import TRAINING
from ..contract import Call, EntryPoint, Reply, Unsupported, framework_call
from .torch_based import distributed
from .torch_based.engine_meshes import EnginesAdapter, list_on_meshes
from .torch_based.installed_torch import (
    ERROR_IF_NONFINITE,
    HAS_COMPILER,
    HAS_SCALER,
    HAS_TWO_STEPS,
    MODES,
    NORM_DTYPES,
    VALUE_DTYPES,
    make_scaler,
)
from .torch_based.parameters import (
    ANY_NORM,
    COMMON,
    DTYPES,
    NORM_TYPES,
    Clip,
    GivenGradients,
    Parameters,
    add_flags,
    answer_call,
    choose_device,
    get_device,
    make_tensor,
    negate,
    read_array,
    read_arrays,
    select_more,
)

__all__ = ["TorchAdapter", "make_tensor", "read_array"]

#: `torch.compile` generates C++ for the CPU, so it needs one of these compilers.
COMPILERS = [name for name in (os.environ.get("CXX"), "g++", "clang++") if HAS_COMPILER and name and shutil.which(name)]

#: The abilities of the functions by value, and of those of a norm.
VALUE = (*COMMON, "tensor_threshold")
NORM = (*VALUE, *ANY_NORM, *ERROR_IF_NONFINITE)

#: The entry points on meshes of two axes.
ON_MESHES = list_on_meshes(
    "torch.nn.utils.clip_grad_norm_", distributed.clip_norm, ("norm_type", *ERROR_IF_NONFINITE), NORM_DTYPES
)

#: The entry point that scales the loss.
SCALED = "torch.nn.utils.clip_grad_norm_ then torch.amp.GradScaler.step"

#: `GradScaler.unscale_` refuses float16 gradients on purpose: the parameters of mixed precision stay wider.
SCALED_DTYPES = ("bfloat16", "float32", "float64")

#: The abilities that gradients of a backward pass lack.
WITHOUT_BACKWARD = ("strided", "packed", "repeated", "generator", "single", "reuses", "follows")


class TorchAdapter(EnginesAdapter):
    """Adapter for the clip functions of torch.

    Each function is listed with `foreach` true, false and None. The other entry points are the two-step norm clip, by
    torch's norm and by a norm of the user's own, the optimizer, and the optimizer with `torch.amp.GradScaler`. An older
    torch has fewer of them.
    """

    def __init__(self, device: str = "cpu") -> None:
        """Choose the device. List the entry points, and the compiler that `torch.compile` finds."""
        choose_device(device)
        compiler = COMPILERS[0] if COMPILERS else "none, so torch.compile is not tested"
        super().__init__("PyTorch", torch.__version__, [*ENTRY_POINTS, *ON_MESHES], compiler=compiler)

    def subjects(self) -> Sequence[EntryPoint]:
        """Return all entry points, the distributed ones last: they have processes that share no other device."""
        if get_device().type == "cpu":
            return [*super().subjects(), *distributed.ENTRY_POINTS.values()]
        # On another device, each tensor has a buffer of its own.
        return [
            replace(one, features=tuple(feature for feature in one.features if feature != "packed"))
            for one in super().subjects()
            if one.mesh is None
        ]

    def call(self, call: Call) -> Reply:
        """Return the answer of the entry point that the call names. Several processes answer a distributed call."""
        if call.subject in distributed.ENTRY_POINTS:
            return distributed.answer_in_processes(call)
        return super().call(call)

    def answer(self, entry: EntryPoint, call: Call) -> Reply:
        """Make the call, compile it if the call says so, and take the steps that the call names."""
        is_optimizer = "optimizer" in entry.features
        if is_optimizer and not call.gradients:
            message = "torch.optim.SGD takes no empty list of parameters"
            raise Unsupported(message, "interface")
        trains = any(name in call.options for name in TRAINING) or any(gradient.group for gradient in call.gradients)
        if trains or entry.name == SCALED:
            return _train(entry, call)
        rate = call.options.get("learning_rate", 1.0)
        step = (lambda listed: torch.optim.SGD(listed, lr=rate).step()) if is_optimizer else None
        return answer_call(_compile(entry) if call.options.get("compiled") else entry, call, step)


def _train(entry: EntryPoint, call: Call) -> Reply:
    """Run real backward passes, clips and steps of SGD, and return the negated parameters.

    With `torch.amp.GradScaler`, the loss is scaled before a backward pass, and the gradients are unscaled before the
    clip. The first scale is a power of two, so this changes only gradients that overflow.
    """
    _refuse_other_gradients(call)
    start, decay, steps, passes = (call.options.get(name, default) for name, default in zip(TRAINING, (0.0, 0.0, 1, 1)))
    parameters: list[Parameter] = []
    groups: dict[int, list[Parameter]] = {}
    for gradient in call.gradients:
        given = None if gradient.array is None else make_tensor(gradient.array)
        like = torch.zeros(1, device=get_device()) if given is None else given
        parameters.append(Parameter(torch.full_like(like, start)))
        parameters[-1].grad = given
        groups.setdefault(gradient.group, []).append(parameters[-1])
    model = GivenGradients(parameters)
    rest = {name: value for name, value in add_flags(call).items() if name not in TRAINING}
    scaler = make_scaler(get_device().type, enabled=entry.name == SCALED)
    with framework_call(lambda: read_arrays([parameter.grad for parameter in parameters])) as seen:
        optimizer = torch.optim.SGD(
            [{"params": group} for group in groups.values()], lr=rest.get("learning_rate", 1.0), weight_decay=decay
        )
        for _ in range(steps):
            optimizer.zero_grad()
            for _ in range(passes):
                scaler.scale(model()).backward()
            scaler.unscale_(optimizer)
            norm = entry.clip(lambda: parameters, rest)
            scaler.step(optimizer)
            scaler.update()
    return Reply(
        gradients=read_arrays([negate(one) for one in parameters]),
        norm=None if norm is None else read_array(norm),
        inputs=read_arrays([parameter.grad for parameter in parameters]),
        warnings=seen.warnings,
    )


def _refuse_other_gradients(call: Call) -> None:
    """Refuse gradients that no backward pass of this adapter makes."""
    if all(gradient.array is None for gradient in call.gradients):
        message = "a backward pass needs a loss, and no parameter of this call takes part in one"
        raise Unsupported(message, "interface")
    if any(gradient.layout != "contiguous" for gradient in call.gradients):
        message = "a backward pass gives the gradients in torch's own layout"
        raise Unsupported(message, "interface")
    if any(gradient.rows is not None for gradient in call.gradients):
        message = "this adapter makes no row-sparse gradients by a backward pass"
        raise Unsupported(message)
    if "reused" in call.options or "followed" in call.options:
        message = "this adapter makes no other calls on the tensors of a backward pass"
        raise Unsupported(message)


def _compile(entry: EntryPoint) -> EntryPoint:
    # After several recompilations of one function, torch stops compiling it. A reset starts the count again.
    torch.compiler.reset()
    return replace(entry, clip=torch.compile(entry.clip))


def _make_norm_clip(**mode: bool | None) -> Clip:
    def clip(passed: Callable[[], Parameters], options: Mapping[str, Any]) -> torch.Tensor:
        return utils.clip_grad_norm_(passed(), options["clip_norm"], **mode, **select_more(options))

    return clip


def _make_value_clip(**mode: bool | None) -> Clip:
    def clip(passed: Callable[[], Parameters], options: Mapping[str, Any]) -> None:
        utils.clip_grad_value_(passed(), options["max"], **mode, **select_more(options))

    return clip


def _clip_in_two_steps(passed: Callable[[], Parameters], options: Mapping[str, Any]) -> torch.Tensor:
    parameters = passed()
    if isinstance(parameters, Parameter):
        assert parameters.grad is not None
        norm = utils.get_total_norm(parameters.grad, **select_more(options))
    else:
        gradients = [parameter.grad for parameter in parameters if parameter.grad is not None]
        norm = utils.get_total_norm(gradients, **select_more(options))
    utils.clip_grads_with_norm_(passed(), options["clip_norm"], norm)
    return norm


def _clip_by_own_norm(passed: Callable[[], Parameters], options: Mapping[str, Any]) -> None:
    """Clip with the norm rounded to float64, as users do who want a safer norm than torch's."""
    parameters = passed()
    listed = [parameters] if isinstance(parameters, Parameter) else parameters
    gradients = [one.grad.double().flatten() for one in listed if one.grad is not None]
    # `math.hypot` scales the elements, so their squares neither overflow nor underflow.
    norm = math.hypot(*(value for gradient in gradients for value in gradient.tolist()))
    if math.isinf(norm) and all(torch.isfinite(gradient).all() for gradient in gradients):
        message = "the norm of these gradients is beyond the largest number of float64"
        raise Unsupported(message, "interface")
    total = torch.tensor(norm, dtype=torch.float64, device=get_device())
    utils.clip_grads_with_norm_(passed(), options["clip_norm"], total, **select_more(options))


def _list_entry_points() -> Iterator[EntryPoint]:
    for mode in MODES:
        name = "".join(f"[{option}={value}]" for option, value in mode.items())
        # The compiler is slow and makes its own loops whatever `foreach` says, so one of the three modes is enough.
        more = ("in_place", "compiles") if mode == MODES[-1] and COMPILERS else ("in_place",)
        yield _make_norm_entry(name, *more, **mode)
        yield _make_value_entry(name, *more, **mode)
    if HAS_TWO_STEPS:
        yield from _list_two_steps()
    steps = ("optimizer", "learning_rate", "training", "groups")
    yield _make_norm_entry(" then torch.optim.SGD", *steps)
    if HAS_SCALER:
        features = tuple(name for name in (*NORM, *steps) if name not in WITHOUT_BACKWARD)
        yield EntryPoint(SCALED, "clip_by_global_norm", SCALED_DTYPES, features, NORM_TYPES, clip=_make_norm_clip())
    yield _make_value_entry(" then torch.optim.SGD", *steps)


def _make_norm_entry(suffix: str, *more: str, **mode: bool | None) -> EntryPoint:
    name, features = "torch.nn.utils.clip_grad_norm_" + suffix, (*NORM, *more)
    return EntryPoint(name, "clip_by_global_norm", NORM_DTYPES, features, NORM_TYPES, clip=_make_norm_clip(**mode))


def _make_value_entry(suffix: str, *more: str, **mode: bool | None) -> EntryPoint:
    name, features = "torch.nn.utils.clip_grad_value_" + suffix, (*VALUE, *more)
    return EntryPoint(name, "clip_by_value", VALUE_DTYPES, features, clip=_make_value_clip(**mode))


def _list_two_steps() -> Iterator[EntryPoint]:
    """Yield the entry points that take a norm, which is torch's or the user's."""
    yield EntryPoint(
        "torch.nn.utils.get_total_norm then clip_grads_with_norm_",
        "clip_by_global_norm",
        DTYPES,
        (*NORM, "in_place"),
        NORM_TYPES,
        clip=_clip_in_two_steps,
    )
    yield EntryPoint(
        "torch.nn.utils.clip_grads_with_norm_ with a float64 norm",
        "clip_by_global_norm",
        DTYPES,
        (*VALUE, "in_place"),
        clip=_clip_by_own_norm,
    )


ENTRY_POINTS = list(_list_entry_points())
