"""PyTorch: the functions of `torch.nn.utils` that clip gradients, called on real parameters on the CPU."""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass
from typing import Any, Callable, Iterable, List, Mapping, Optional, Sequence, Tuple, Union

import torch
from torch.nn import Parameter
from torch.nn.utils import clip_grad_norm_, clip_grad_value_, clip_grads_with_norm_, get_total_norm

from .arrays import build_tensors, earlier_calls, in_threads, lay_out, refuse_unlisted
from .contract import About, Adapter, Array, Call, Gradient, Reply, Subject, Unsupported, framework_call

__all__ = ["TorchAdapter", "array_of", "tensor_of"]

DTYPES = ("float16", "bfloat16", "float32", "float64")

#: `torch.compile` makes C++ of what it compiles.
COMPILERS = [name for name in (os.environ.get("CXX"), "g++", "clang++") if name and shutil.which(name)]

#: What every entry point can do; exclusion is not there, because a user leaves the parameter out of the list.
COMMON = ("none_grads", "mixed_dtypes", "strided", "repeated", "generator", "single", "threads", "reuses")
NORM = (*COMMON, "returns_norm", "norm_type", "error_if_nonfinite")

#: "type of the used p-norm. Can be 'inf' for infinity norm": any p, so the ones that cases use.
NORM_TYPES = (0.5, 1.0, 1.5, 2.0, 3.0, 4.0, float("inf"))

#: What the functions take.
Parameters = Union[Parameter, Iterable[Parameter]]

#: Clips the gradients of these parameters and returns the norm, if there is one.
Clip = Callable[[Callable[[], Parameters], Mapping[str, Any]], Optional[torch.Tensor]]


class TorchAdapter(Adapter):
    """The gradient clips of torch."""

    def about(self) -> About:
        """Torch's version, and what may change the order in which it adds."""
        environment = {
            "device": "cpu",
            "cpu_capability": torch.backends.cpu.get_cpu_capability(),
            "threads": str(torch.get_num_threads()),
            "compiler": COMPILERS[0] if COMPILERS else "none, so that torch.compile is not asked for",
        }
        return About("PyTorch", torch.__version__, environment)

    def subjects(self) -> Sequence[Subject]:
        """Each function with `foreach` on, off and left to torch; the two halves of the norm clip; an optimizer."""
        return [entry.subject for entry in ENTRY_POINTS.values()]

    def call(self, call: Call) -> Reply:
        """Answer through the entry point that the call names."""
        entry = ENTRY_POINTS[call.subject]
        refuse_unlisted(call, entry.subject)
        if entry.steps and not call.gradients:
            message = "torch.optim.SGD takes no empty list of parameters"
            raise Unsupported(message)
        if "threads" in call.options:
            return in_threads(call, self.call)
        return _answer(entry, call)


@dataclass(frozen=True)
class EntryPoint:
    """A subject, and how its function is called."""

    subject: Subject
    clip: Clip

    @property
    def steps(self) -> bool:
        """Whether an optimizer takes a step after the clip."""
        return "optimizer" in self.subject.features


def _answer(entry: EntryPoint, call: Call) -> Reply:
    parameters = build_tensors(call.gradients, _parameter)
    listed = [_without_gradient() if parameter is None else parameter for parameter in parameters]
    before = [parameter.grad for parameter in listed]

    def passed() -> Parameters:
        if call.options.get("as_single"):
            return listed[0]
        return (parameter for parameter in listed) if call.options.get("as_generator") else listed

    with framework_call(lambda: _arrays([parameter.grad for parameter in listed])) as seen:
        for earlier in earlier_calls(call) if "reused" in call.options else ():
            _fill(listed, earlier)
            entry.clip(passed, earlier.options)
            _fill(listed, call)
        norm = _clip_of(entry, call)(passed, call.options)
        if entry.steps:
            torch.optim.SGD(listed, lr=call.options.get("learning_rate", 1.0)).step()
    after = [parameter.grad for parameter in listed]
    return Reply(
        gradients=_arrays([_minus(parameter) for parameter in listed] if entry.steps else after),
        norm=None if norm is None else array_of(norm),
        inputs=_arrays(before),
        same_object=None if entry.steps else tuple(new is old for new, old in zip(after, before)),
        warnings=seen.warnings,
    )


def _clip_of(entry: EntryPoint, call: Call) -> Clip:
    if not call.options.get("compiled"):
        return entry.clip
    # After some recompilations of one function torch runs it as it is, unless what it knows of it is forgotten.
    torch.compiler.reset()
    compiled: Clip = torch.compile(entry.clip)
    return compiled


def _parameter(gradient: Gradient) -> Parameter:
    assert gradient.array is not None
    tensor = tensor_of(gradient.array, gradient.layout)
    parameter = Parameter(torch.zeros(tensor.shape, dtype=tensor.dtype))
    parameter.grad = tensor
    return parameter


def _fill(parameters: Sequence[Parameter], call: Call) -> None:
    """Put the gradients of a call into those of parameters that were made for one like it."""
    for parameter, gradient in zip(parameters, call.gradients):
        if parameter.grad is not None and gradient.array is not None:
            parameter.grad.copy_(tensor_of(gradient.array))


def _without_gradient() -> Parameter:
    return Parameter(torch.zeros(1))


def _minus(parameter: Parameter) -> Optional[torch.Tensor]:
    """Minus the parameter; None where it has no gradient and so did not move."""
    # Zero minus zero is zero, where the negative of zero is minus zero, which the optimizer did not produce.
    return None if parameter.grad is None else torch.zeros_like(parameter) - parameter.detach()


def tensor_of(array: Array, layout: str = "contiguous") -> torch.Tensor:
    """A tensor with an array's very bits; NumPy has no bfloat16, so they travel as integers."""
    bits = array.bits()
    signed = lay_out(bits.view("i{}".format(bits.itemsize)), layout)
    return torch.from_numpy(signed).view(getattr(torch, array.dtype))


def array_of(tensor: torch.Tensor) -> Array:
    """The elements of a tensor as an array."""
    tensor = tensor.detach().cpu()
    if tensor.dtype == torch.bfloat16:
        return Array.of(tensor.view(torch.int16).numpy().view("u2"), "bfloat16")
    return Array.of(tensor.numpy())


def _arrays(tensors: Sequence[Optional[torch.Tensor]]) -> Tuple[Optional[Array], ...]:
    return tuple(None if tensor is None else array_of(tensor) for tensor in tensors)


def _by_norm(foreach: Optional[bool]) -> Clip:
    def clip(passed: Callable[[], Parameters], options: Mapping[str, Any]) -> torch.Tensor:
        return clip_grad_norm_(passed(), options["clip_norm"], foreach=foreach, **_norm_keywords(options))

    return clip


def _by_value(foreach: Optional[bool]) -> Clip:
    def clip(passed: Callable[[], Parameters], options: Mapping[str, Any]) -> None:
        clip_grad_value_(passed(), options["max"], foreach=foreach)

    return clip


def _by_norm_in_two_steps(passed: Callable[[], Parameters], options: Mapping[str, Any]) -> torch.Tensor:
    parameters = passed()
    if isinstance(parameters, Parameter):
        assert parameters.grad is not None
        norm = get_total_norm(parameters.grad, **_norm_keywords(options))
    else:
        gradients = [parameter.grad for parameter in parameters if parameter.grad is not None]
        norm = get_total_norm(gradients, **_norm_keywords(options))
    clip_grads_with_norm_(passed(), options["clip_norm"], norm)
    return norm


def _norm_keywords(options: Mapping[str, Any]) -> Mapping[str, Any]:
    return {name: options[name] for name in ("norm_type", "error_if_nonfinite") if name in options}


def _entry_points() -> List[EntryPoint]:
    entries = []
    for foreach in (True, False, None):
        mode = "[foreach={}]".format(foreach)
        # With `foreach` or without, the compiler makes its own loops; one of the three is enough for its slow work.
        more = ("in_place", "compiles") if foreach is None and COMPILERS else ("in_place",)
        by_norm = Subject(
            "torch.nn.utils.clip_grad_norm_" + mode, "clip_by_global_norm", DTYPES, (*NORM, *more), NORM_TYPES
        )
        by_value = Subject("torch.nn.utils.clip_grad_value_" + mode, "clip_by_value", DTYPES, (*COMMON, *more))
        entries += [EntryPoint(by_norm, _by_norm(foreach)), EntryPoint(by_value, _by_value(foreach))]
    halves = Subject(
        "torch.nn.utils.get_total_norm then clip_grads_with_norm_",
        "clip_by_global_norm",
        DTYPES,
        (*NORM, "in_place"),
        NORM_TYPES,
    )
    optimizer = Subject(
        "torch.nn.utils.clip_grad_norm_ then torch.optim.SGD",
        "clip_by_global_norm",
        DTYPES,
        (*NORM, "optimizer", "learning_rate"),
        NORM_TYPES,
    )
    return [*entries, EntryPoint(halves, _by_norm_in_two_steps), EntryPoint(optimizer, _by_norm(None))]


ENTRY_POINTS = {entry.subject.name: entry for entry in _entry_points()}
