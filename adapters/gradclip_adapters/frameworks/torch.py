"""Adapt PyTorch: the clip functions of `torch.nn.utils`, called on real parameters on the CPU."""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass
from typing import Any, Callable, Dict, Iterable, List, Mapping, Optional, Sequence, Tuple, Union

import torch
from torch.nn import Parameter
from torch.nn.utils import clip_grad_norm_, clip_grad_value_, clip_grads_with_norm_, get_total_norm

from ..arrays import answer_in_threads, build_tensors, convert_options, lay_out, make_earlier_calls, make_following_call
from ..contract import About, Adapter, Array, Call, Gradient, Reply, Subject, Unsupported, framework_call

__all__ = ["TorchAdapter", "make_tensor", "read_array"]

DTYPES = ("float16", "bfloat16", "float32", "float64")

#: `torch.compile` generates C++ for the CPU, so it needs one of these compilers.
COMPILERS = [name for name in (os.environ.get("CXX"), "g++", "clang++") if name and shutil.which(name)]

#: The abilities of every entry point. Exclusion is missing: a torch user leaves the parameter out of the list.
COMMON = (
    "none_grads",
    "mixed_dtypes",
    "strided",
    "packed",
    "repeated",
    "generator",
    "single",
    "threads",
    "reuses",
    "follows",
    "threshold_kinds",
)
NORM = (*COMMON, "returns_norm", "norm_type", "error_if_nonfinite")

#: Torch takes any p ("type of the used p-norm. Can be 'inf' for infinity norm"), so list the ones that cases use.
NORM_TYPES = (0.5, 1.0, 1.5, 2.0, 2.5, 3.0, 4.0, float("inf"))

#: The options that hold a threshold, and the options that say how to make the call.
THRESHOLDS = ("clip_norm", "max")
HOW = (
    "learning_rate",
    "as_generator",
    "as_single",
    "threads",
    "reused",
    "followed",
    "flags",
    "threshold_as",
    "compiled",
)

#: The options of several backward passes and steps.
TRAINING = ("start", "weight_decay", "steps", "accumulate")

#: The argument that the functions take.
Parameters = Union[Parameter, Iterable[Parameter]]

#: A function that clips the gradients of these parameters and returns the norm, if there is one.
Clip = Callable[[Callable[[], Parameters], Mapping[str, Any]], Optional[torch.Tensor]]


class TorchAdapter(Adapter):
    """Adapter for the clip functions of torch."""

    def __init__(self) -> None:
        """Make an optimizer. The first one of a process imports a part of torch that sets an environment variable."""
        torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=1.0)

    def about(self) -> About:
        """Return torch's version and the settings that may change the order of its additions."""
        environment = {
            "device": "cpu",
            "cpu_capability": torch.backends.cpu.get_cpu_capability(),
            "threads": str(torch.get_num_threads()),
            "compiler": COMPILERS[0] if COMPILERS else "none, so torch.compile is not tested",
        }
        return About("PyTorch", torch.__version__, environment)

    def subjects(self) -> Sequence[Subject]:
        """Return all entry points.

        Each function is listed with `foreach` true, false and None. The other entry points are the two-step norm clip
        and the optimizer.
        """
        return [entry.subject for entry in ENTRY_POINTS.values()]

    def call(self, call: Call) -> Reply:
        """Return the answer of the entry point that the call names."""
        entry = ENTRY_POINTS[call.subject]
        if entry.is_optimizer and not call.gradients:
            message = "torch.optim.SGD takes no empty list of parameters"
            raise Unsupported(message, "interface")
        if "compiled" in call.options and "compiles" not in entry.subject.features:
            message = "torch.compile is slow and ignores `foreach`: it is tested only with `foreach=None` "
            message += "and only where there is a C++ compiler"
            raise Unsupported(message)
        if "threads" in call.options:
            return answer_in_threads(call, self.call)
        if any(name in call.options for name in TRAINING) or any(gradient.group for gradient in call.gradients):
            return _train(entry, call)
        return _answer(entry, call)


@dataclass(frozen=True)
class EntryPoint:
    """An entry point of torch and the function that calls it."""

    subject: Subject
    clip: Clip

    @property
    def is_optimizer(self) -> bool:
        """Return whether an optimizer takes a step after the clip."""
        return "optimizer" in self.subject.features


def _answer(entry: EntryPoint, call: Call) -> Reply:
    parameters = build_tensors(call.gradients, _make_parameter)
    listed = [_make_parameter_without_gradient() if parameter is None else parameter for parameter in parameters]
    before = [parameter.grad for parameter in listed]

    def pass_parameters() -> Parameters:
        if call.options.get("as_single"):
            return listed[0]
        return (parameter for parameter in listed) if call.options.get("as_generator") else listed

    with framework_call(lambda: _read_arrays([parameter.grad for parameter in listed])) as seen:
        for earlier in make_earlier_calls(call) if "reused" in call.options else ():
            _fill(listed, earlier)
            entry.clip(pass_parameters, earlier.options)
            _fill(listed, call)
        norm = _choose_clip(entry, call)(pass_parameters, _add_flags(call))
        if "followed" in call.options:
            following = make_following_call(call)
            others = [one for one in build_tensors(following.gradients, _make_parameter) if one is not None]
            entry.clip(lambda: others, following.options)
        if entry.is_optimizer:
            torch.optim.SGD(listed, lr=call.options.get("learning_rate", 1.0)).step()
    after = [parameter.grad for parameter in listed]
    return Reply(
        gradients=_read_arrays([_negate(parameter) for parameter in listed] if entry.is_optimizer else after),
        norm=None if norm is None else read_array(norm),
        inputs=_read_arrays(before),
        same_object=None if entry.is_optimizer else tuple(new is old for new, old in zip(after, before)),
        warnings=seen.warnings,
    )


def _train(entry: EntryPoint, call: Call) -> Reply:
    """Run real backward passes, clips and steps of SGD, and return the negated parameters."""
    options = {name: call.options.get(name, default) for name, default in zip(TRAINING, (0.0, 0.0, 1, 1))}
    parameters: List[Parameter] = []
    groups: Dict[int, List[Parameter]] = {}
    for gradient in call.gradients:
        assert gradient.array is not None
        tensor = make_tensor(gradient.array)
        parameters.append(Parameter(torch.full_like(tensor, options["start"])))
        groups.setdefault(gradient.group, []).append(parameters[-1])
    factors = [make_tensor(gradient.array) for gradient in call.gradients if gradient.array is not None]
    rest = {name: value for name, value in call.options.items() if name not in TRAINING}
    with framework_call() as seen:
        optimizer = torch.optim.SGD(
            [{"params": group} for group in groups.values()],
            lr=rest.get("learning_rate", 1.0),
            weight_decay=options["weight_decay"],
        )
        for _ in range(options["steps"]):
            optimizer.zero_grad()
            for _ in range(options["accumulate"]):
                torch.stack([(one * factor).sum() for one, factor in zip(parameters, factors)]).sum().backward()
            entry.clip(lambda: parameters, rest)
            optimizer.step()
    return Reply(gradients=_read_arrays([_negate(one) for one in parameters]), warnings=seen.warnings)


def _add_flags(call: Call) -> Mapping[str, Any]:
    """Return the options, and the flags if some are false. torch has no parameter for flags, and raises an error."""
    flags = [gradient.need_clip for gradient in call.gradients]
    options, _ = convert_options(call.options, flags)
    return options if all(flags) else {**options, "need_clip": flags}


def _choose_clip(entry: EntryPoint, call: Call) -> Clip:
    if not call.options.get("compiled"):
        return entry.clip
    # After several recompilations of one function, torch stops compiling it. A reset starts the count again.
    torch.compiler.reset()
    compiled: Clip = torch.compile(entry.clip)
    return compiled


def _make_parameter(gradient: Gradient) -> Parameter:
    assert gradient.array is not None
    tensor = make_tensor(gradient.array, gradient.layout)
    if gradient.rows is not None:
        # `torch.nn.Embedding(sparse=True)` makes gradients of this form.
        shape = (gradient.height, *tensor.shape[1:])
        tensor = torch.sparse_coo_tensor(torch.tensor([gradient.rows]), tensor, shape, check_invariants=True)
    parameter = Parameter(torch.zeros(tensor.shape, dtype=tensor.dtype))
    parameter.grad = tensor
    return parameter


def _fill(parameters: Sequence[Parameter], call: Call) -> None:
    """Copy the gradients of a call into the gradients of existing parameters."""
    for parameter, gradient in zip(parameters, call.gradients):
        if parameter.grad is not None and gradient.array is not None:
            parameter.grad.copy_(make_tensor(gradient.array))


def _make_parameter_without_gradient() -> Parameter:
    return Parameter(torch.zeros(1))


def _negate(parameter: Parameter) -> Optional[torch.Tensor]:
    """Return the negated parameter, or None if it has no gradient and so did not move."""
    # Subtract, because negating would turn a zero into a minus zero that the optimizer did not produce.
    return None if parameter.grad is None else torch.zeros_like(parameter) - parameter.detach()


def make_tensor(array: Array, layout: str = "contiguous") -> torch.Tensor:
    """Return a tensor with the bits of an array.

    The bits pass through NumPy as integers, because NumPy has no bfloat16.
    """
    bits = array.bits()
    signed = lay_out(bits.view("i{}".format(bits.itemsize)), layout)
    if layout == "reversed":
        message = "tensors of torch have no negative strides"
        raise Unsupported(message, "interface")
    return torch.from_numpy(signed).view(getattr(torch, array.dtype))


def read_array(tensor: torch.Tensor) -> Array:
    """Return the elements of a tensor as an array."""
    tensor = tensor.detach().cpu()
    tensor = tensor.to_dense() if tensor.is_sparse else tensor
    if tensor.dtype == torch.bfloat16:
        return Array.of(tensor.view(torch.int16).numpy().view("u2"), "bfloat16")
    return Array.of(tensor.numpy())


def _read_arrays(tensors: Sequence[Optional[torch.Tensor]]) -> Tuple[Optional[Array], ...]:
    return tuple(None if tensor is None else read_array(tensor) for tensor in tensors)


def _make_norm_clip(foreach: Optional[bool]) -> Clip:
    def clip(passed: Callable[[], Parameters], options: Mapping[str, Any]) -> torch.Tensor:
        return clip_grad_norm_(passed(), options["clip_norm"], foreach=foreach, **_select_more(options))

    return clip


def _make_value_clip(foreach: Optional[bool]) -> Clip:
    def clip(passed: Callable[[], Parameters], options: Mapping[str, Any]) -> None:
        clip_grad_value_(passed(), options["max"], foreach=foreach, **_select_more(options))

    return clip


def _clip_in_two_steps(passed: Callable[[], Parameters], options: Mapping[str, Any]) -> torch.Tensor:
    parameters = passed()
    if isinstance(parameters, Parameter):
        assert parameters.grad is not None
        norm = get_total_norm(parameters.grad, **_select_more(options))
    else:
        gradients = [parameter.grad for parameter in parameters if parameter.grad is not None]
        norm = get_total_norm(gradients, **_select_more(options))
    clip_grads_with_norm_(passed(), options["clip_norm"], norm)
    return norm


def _select_more(options: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the other options of a call, which torch takes or refuses."""
    return {name: value for name, value in options.items() if name not in (*THRESHOLDS, *HOW)}


def _list_entry_points() -> List[EntryPoint]:
    entries = []
    for foreach in (True, False, None):
        mode = "[foreach={}]".format(foreach)
        # The compiler is slow and makes its own loops whatever `foreach` says, so one of the three modes is enough.
        more = ("in_place", "compiles") if foreach is None and COMPILERS else ("in_place",)
        by_norm = Subject(
            "torch.nn.utils.clip_grad_norm_" + mode, "clip_by_global_norm", DTYPES, (*NORM, *more), NORM_TYPES
        )
        by_value = Subject("torch.nn.utils.clip_grad_value_" + mode, "clip_by_value", DTYPES, (*COMMON, *more))
        entries += [EntryPoint(by_norm, _make_norm_clip(foreach)), EntryPoint(by_value, _make_value_clip(foreach))]
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
        (*NORM, "optimizer", "learning_rate", "training", "groups"),
        NORM_TYPES,
    )
    return [*entries, EntryPoint(halves, _clip_in_two_steps), EntryPoint(optimizer, _make_norm_clip(None))]


ENTRY_POINTS = {entry.subject.name: entry for entry in _list_entry_points()}
