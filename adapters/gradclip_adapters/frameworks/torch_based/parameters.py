"""Share what adapters of packages on torch do: make parameters with gradients, call, and read the gradients back.

An adapter of a package is a list of entry points. Each entry point has a function that passes the parameters and the
options of a call to the package's own function. For packages that clip inside their training loop, a model makes the
gradients by its backward pass.
"""

from __future__ import annotations

from typing import Any, Callable, Iterable, Mapping, Sequence, Union

import torch
from torch.nn import Module, Parameter, ParameterList

from ...arrays import (
    HOW,
    answer_in_threads,
    ask_among_others,
    build_tensors,
    convert_options,
    find_dtype,
    lay_out,
    refuse_other_dtypes,
)
from ...contract import (
    About,
    Array,
    Call,
    EntryPoint,
    Gradient,
    MissingDevice,
    Reply,
    Unsupported,
    framework_call,
)
from ..answering import CALLS, NORM_TYPES, DeclaredAdapter, read_each
from .installed_torch import find_cpu_capability, make_rows

__all__ = [
    "ANY_NORM",
    "COMMON",
    "DTYPES",
    "NORM_TYPES",
    "OWNED",
    "Clip",
    "GivenGradients",
    "Parameters",
    "ParametersAdapter",
    "TrainingAdapter",
    "add_flags",
    "answer_call",
    "choose_device",
    "describe_device",
    "get_device",
    "make_tensor",
    "negate",
    "read_array",
    "read_arrays",
    "select_more",
    "train_model",
]

DTYPES = ("float16", "bfloat16", "float32", "float64")

#: The abilities of a function that takes parameters. Exclusion is missing: a user of torch leaves the parameter out.
COMMON = (*CALLS, "none_grads", "mixed_dtypes", "strided", "packed", "repeated", "generator", "single", "threads")
#: The abilities of a function that finds the parameters in a module or an optimizer, which holds each of them once.
OWNED = tuple(feature for feature in COMMON if feature not in ("repeated", "generator", "single"))
#: The abilities of a clip by a norm of any order.
ANY_NORM = ("returns_norm", "norm_type")

#: The options that an adapter passes by itself: a threshold, and the rate of an optimizer.
PASSED = ("clip_norm", "clip_factor", "max", "learning_rate")

#: The device on which the adapters make all tensors. A host process has one adapter, which chooses it once.
_device = torch.device("cpu")

#: The argument that the functions take.
Parameters = Union[Parameter, Iterable[Parameter]]

#: A function that clips the gradients of these parameters and returns the norm, if there is one. This is the form of
#: `EntryPoint.clip` for a :class:`ParametersAdapter`.
Clip = Callable[[Callable[[], Any], Mapping[str, Any]], Any]


class ParametersAdapter(DeclaredAdapter):
    """Adapter for functions that clip the gradients of parameters in place."""

    def __init__(self, framework: str, version: str, entry_points: Iterable[EntryPoint], **environment: str) -> None:
        """Make an optimizer. The first one of a process imports a part of torch that sets an environment variable."""
        torch.optim.SGD([Parameter(torch.zeros(1))], lr=1.0)
        super().__init__(About(framework, version, {**describe_torch(), **environment}), entry_points)

    def call(self, call: Call) -> Reply:
        entry = self.entry_points[call.subject]
        _refuse_impossible(entry, call)
        if "threads" in call.options:
            return answer_in_threads(call, self.call)
        return self.answer(entry, call)

    def answer(self, entry: EntryPoint, call: Call) -> Reply:
        """Make the call on new parameters, and return their gradients."""
        return answer_call(entry, call)


class TrainingAdapter(ParametersAdapter):
    """Adapter for functions that clip inside a training loop. The backward pass makes the gradients."""

    def call(self, call: Call) -> Reply:
        """Train for one step from zero, and return the negated parameters."""
        if any(gradient.layout != "contiguous" or gradient.rows is not None for gradient in call.gradients):
            message = "the backward pass makes the gradients, dense and without gaps"
            raise Unsupported(message, "interface")
        if any(name in call.options for name in ("threads", "reused", "followed")):
            message = "each call trains a model of its own, alone"
            raise Unsupported(message)
        refuse_other_dtypes(call, self.entry_points[call.subject])
        return super().call(call)


def _refuse_impossible(entry: EntryPoint, call: Call) -> None:
    """Refuse calls that have no form in the package."""
    if "compiled" in call.options and "compiles" not in entry.features:
        message = "torch.compile is slow: it is tested only with torch's own functions"
        raise Unsupported(message)
    if "repeated" in entry.features:
        if "as_single" in call.options and "single" not in entry.features:
            message = "it takes several parameters, not a single one"
            raise Unsupported(message, "interface")
        return
    if "as_generator" in call.options or "as_single" in call.options:
        message = "it takes a module or an optimizer, which holds a list of parameters"
        raise Unsupported(message, "interface")
    if any(gradient.same_as is not None for gradient in call.gradients):
        message = "it takes a module or an optimizer, which holds each parameter once"
        raise Unsupported(message, "interface")
    if not call.gradients:
        message = "it takes an optimizer, and torch makes none for an empty list of parameters"
        raise Unsupported(message, "interface")


def choose_device(name: str) -> None:
    """Make all later tensors on a device."""
    global _device  # noqa: PLW0603 - one process serves one adapter
    try:
        torch.zeros(1, device=name)
    # A build for CPUs raises AssertionError for "cuda".
    except (RuntimeError, AssertionError, NotImplementedError) as error:
        message = f"PyTorch {torch.__version__} finds no device {name!r} on this machine."
        raise MissingDevice(message) from error
    _device = torch.device(name)


def get_device() -> torch.device:
    """Return the device on which the adapters make all tensors."""
    return _device


def describe_device() -> str:
    """Return the type of the device, with the name of the card if there is one."""
    return f"{_device.type} ({torch.cuda.get_device_name(_device)})" if _device.type == "cuda" else _device.type


def describe_torch() -> dict[str, str]:
    """Return torch's version, the device, and the settings that may change the order of torch's additions."""
    return {
        "torch": torch.__version__,
        "device": describe_device(),
        "cpu_capability": find_cpu_capability(),
        "threads": str(torch.get_num_threads()),
    }


def answer_call(entry: EntryPoint, call: Call, step: Callable[[list[Parameter]], None] | None = None) -> Reply:
    """Call the function of an entry point on new parameters. Return their gradients, or negated after an optimizer.

    `step` takes a step of an optimizer on the parameters after the clip, if the clip does not take it.
    """
    listed = _replace_none(build_tensors(call.gradients, make_parameter))
    before = [parameter.grad for parameter in listed]

    def ask(call: Call, parameters: Sequence[Parameter | None]) -> Any:
        passed = _replace_none(parameters)

        def pass_parameters() -> Parameters:
            if call.options.get("as_single"):
                return passed[0]
            return (parameter for parameter in passed) if call.options.get("as_generator") else passed

        return entry.clip(pass_parameters, add_flags(call))

    with framework_call(lambda: read_arrays([parameter.grad for parameter in listed])) as seen:
        norm = ask_among_others(call, listed, ask, make_parameter, _fill)
        if step is not None:
            step(listed)
    after = [parameter.grad for parameter in listed]
    return Reply(
        gradients=read_arrays([negate(parameter) for parameter in listed] if "optimizer" in entry.features else after),
        norm=None if norm is None else read_array(norm),
        inputs=read_arrays(before),
        same_object=None if "optimizer" in entry.features else tuple(new is old for new, old in zip(after, before)),
        warnings=seen.warnings,
    )


def add_flags(call: Call) -> Mapping[str, Any]:
    """Return the options, and the flags if some are false. torch has no parameter for flags, and raises an error."""
    flags = [gradient.need_clip for gradient in call.gradients]
    dtype = getattr(torch, find_dtype(call.gradients))
    options, _ = convert_options(call.options, flags, lambda value: torch.tensor(value, dtype=dtype, device=_device))
    return options if all(flags) else {**options, "need_clip": flags}


def make_parameter(gradient: Gradient) -> Parameter:
    """Return a parameter that carries a gradient. It is zero, unless the clip depends on its values."""
    assert gradient.array is not None
    tensor = make_tensor(gradient.array, gradient.layout)
    if gradient.rows is not None:
        # `torch.nn.Embedding(sparse=True)` makes gradients of this form.
        shape = (gradient.height, *tensor.shape[1:])
        tensor = make_rows(torch.tensor([gradient.rows], device=_device), tensor, shape)
    values = torch.zeros(tensor.shape, dtype=tensor.dtype, device=_device)
    parameter = Parameter(values if gradient.parameter is None else make_tensor(gradient.parameter))
    if parameter.dtype != tensor.dtype:
        message = f"torch refuses a gradient of {tensor.dtype} for a parameter of {parameter.dtype}"
        raise Unsupported(message, "interface")
    parameter.grad = tensor
    return parameter


def _replace_none(parameters: Sequence[Parameter | None]) -> list[Parameter]:
    """Return the parameters, with a new one without a gradient in place of each None."""
    # Some packages take parameters of one dtype only, also those without a gradient.
    dtype = next((parameter.dtype for parameter in parameters if parameter is not None), None)
    return [Parameter(torch.zeros(1, dtype=dtype, device=_device)) if one is None else one for one in parameters]


def _fill(parameter: Parameter, array: Array) -> None:
    parameter.grad.copy_(make_tensor(array))


def negate(parameter: Parameter) -> torch.Tensor | None:
    """Return the negated parameter, or None if it has no gradient and so did not move."""
    # Subtract, because negating would turn a zero into a minus zero that the optimizer did not produce.
    return None if parameter.grad is None else torch.zeros_like(parameter) - parameter.detach()


def make_tensor(array: Array, layout: str = "contiguous") -> torch.Tensor:
    """Return a tensor with the bits of an array, on the chosen device.

    The bits of bfloat16 pass through NumPy as integers, because NumPy has no such dtype.
    """
    bits = array.bits()
    signed = lay_out(bits.view(f"i{bits.itemsize}"), layout)
    if layout == "reversed":
        message = "tensors of torch have no negative strides"
        raise Unsupported(message, "interface")
    if layout == "packed" and _device.type != "cpu":
        message = "the adapter gives each tensor on another device a buffer of its own"
        raise Unsupported(message)
    if array.dtype == "bfloat16":
        tensor = torch.from_numpy(signed).view(torch.bfloat16)
    else:
        tensor = torch.from_numpy(signed.view(array.dtype))
    if _device.type == "cpu":
        return tensor
    return tensor.to(_device) if layout == "contiguous" else _move_with_strides(tensor, _device)


def _move_with_strides(tensor: torch.Tensor, device: torch.device) -> torch.Tensor:
    """Return a copy on a device with the same strides, which begins at the second element of its buffer.

    `Tensor.to` would close the gaps between the elements.
    """
    pairs = zip(tensor.shape, tensor.stride())
    reach = 1 + sum((length - 1) * stride for length, stride in pairs) if tensor.numel() else 0
    elements = tensor.as_strided((reach,), (1,))
    buffer = torch.cat([elements[:1], elements]).to(device)
    return buffer.as_strided(tensor.shape, tensor.stride(), min(1, reach))


def read_array(tensor: torch.Tensor) -> Array:
    """Return the elements of a tensor as an array."""
    tensor = tensor.detach().cpu()
    tensor = tensor.to_dense() if tensor.is_sparse else tensor
    if tensor.dtype == torch.bfloat16:
        return Array.of(tensor.view(torch.int16).numpy().view("u2"), "bfloat16")
    return Array.of(tensor.numpy())


def read_arrays(tensors: Sequence[torch.Tensor | None]) -> tuple[Array | None, ...]:
    """Return the elements of each tensor, and None where there is no tensor."""
    return read_each(read_array, tensors)


def select_more(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the other options of a call, which torch takes or refuses."""
    return {name: value for name, value in options.items() if name not in (*PASSED, *HOW)}


class GivenGradients(Module):  # type: ignore[misc] # mypy does not see torch
    """A model whose loss is the sum of the parameters times the given gradients. So these are its gradients."""

    def __init__(self, parameters: Sequence[Parameter]) -> None:
        super().__init__()
        self.held = ParameterList(parameters)
        self.given = [parameter.grad for parameter in parameters]
        for parameter in parameters:
            parameter.grad = None

    def forward(self, *_: Any) -> torch.Tensor:
        """Return the loss. A parameter without a gradient takes no part in it."""
        # The backward pass needs something that requires a gradient, even if no parameter has one.
        loss = torch.zeros((), dtype=torch.float64, requires_grad=True)
        for parameter, gradient in zip(self.held, self.given):
            if gradient is not None:
                # The sum may overflow in the dtype of the gradient. Its derivative is the gradient itself.
                total = (parameter * gradient).sum()
                loss = loss + (total.full_tensor() if hasattr(total, "full_tensor") else total).double()
        return loss


def train_model(parameters: Sequence[Parameter], train: Callable[[GivenGradients], Any]) -> Any:
    """Let a package train a model with the parameters, put the given gradients back, and return what it returns."""
    model = GivenGradients(parameters)
    returned = train(model)
    for parameter, gradient in zip(parameters, model.given):
        parameter.grad = gradient
    return returned
