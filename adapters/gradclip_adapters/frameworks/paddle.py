"""Adapt Paddle 2 and 3: three clip classes, two functions of `paddle.nn.utils`, and functions on tensors.

Each class is called directly on pairs, through optimizers and through `set_gradient_clip`. `paddle_optimizer` makes the
calls through an optimizer, and `paddle_fleet` those in several processes.
"""

from __future__ import annotations

import warnings
from dataclasses import replace
from functools import partial
from typing import Any, Callable, Iterator

import numpy as np

from ..arrays import answer_in_threads, build_tensors, convert_thresholds, find_dtype, surround
from ..contract import About, Array, Call, EntryPoint, Gradient, MissingDevice, Reply, Unsupported, framework_call
from ..joined_gradients import read_values
from ..operations import OPERATIONS

with warnings.catch_warnings():
    # Paddle 3 warns with the folder of this machine if there is no ccache. A crash would show that as the last output.
    warnings.simplefilter("ignore")
    import paddle
    from paddle.nn import ClipGradByGlobalNorm, ClipGradByNorm, ClipGradByValue
    from paddle.nn.clip import ErrorClipByValue

    from . import paddle_fleet
    from .answering import DeclaredAdapter, ListAdapter, apply_to_each
    from .paddle_optimizer import (
        MakeClip,
        Way,
        make_parameter,
        make_row_sparse_parameter,
        read_arrays,
        step_dynamic,
        step_static,
    )

#: The dtypes of gradients on a CPU. No CPU kernel of a clip takes 16 bits.
BOTH = ("float32", "float64")


class PaddleAdapter(DeclaredAdapter):
    """Adapter for the clips of paddlepaddle 2 and 3. `EntryPoint.clip` takes a call and its options, and answers it."""

    def __init__(self, device: str = "cpu") -> None:
        environment = {"device": _choose_device(device), "commit": paddle.version.commit, "numpy": np.__version__}
        # Older versions have another way to join a group over gloo.
        has_processes = paddle.__version__ >= "3" and device == "cpu"
        super().__init__(
            About("Paddle", paddle.__version__, environment),
            [*_list_entry_points(), *(paddle_fleet.ENTRY_POINTS if has_processes else [])],
        )
        # On a busy machine, the trace of a crash takes longer than the time limit of a case. It names numbers of
        # processes, which differ between runs.
        paddle.disable_signal_handler()

    def call(self, call: Call) -> Reply:
        entry = self.entry_points[call.subject]
        options = dict(call.options)
        if "distributed" in entry.features:
            return _answer(entry, call, options)
        if "threads" in call.options and "threads" not in entry.features:
            message = "Paddle's static mode, names and scopes are shared by the whole process"
            raise Unsupported(message)
        if "threads" in call.options:
            return answer_in_threads(call, self.call)
        if "reused" in call.options and "reuses" not in entry.features:
            message = "this adapter makes no earlier calls on the same tensors"
            raise Unsupported(message)
        if "tensor_threshold" in options and "compiled" in (*options, *entry.features):
            message = "a static program takes no tensor of dynamic mode, and has no other when the clip is made"
            raise Unsupported(message, "interface")
        if options.pop("tensor_threshold", False):
            dtype = find_dtype(call.gradients)
            options = convert_thresholds(options, lambda value: paddle.to_tensor(value, dtype))
        return _answer(entry, call, options)


def _answer(entry: EntryPoint, call: Call, options: dict[str, Any]) -> Reply:
    reply: Reply = entry.clip(call, options)
    return reply


def _choose_device(name: str) -> str:
    """Choose a device, and return its name, with the name of the card."""
    if name == "cpu":
        paddle.set_device(name)
        return name
    if name != "cuda" or not paddle.is_compiled_with_cuda() or not paddle.device.cuda.device_count():
        message = f"Paddle {paddle.__version__} finds no device {name!r} on this machine."
        raise MissingDevice(message)
    paddle.set_device("gpu")
    return f"{name} ({paddle.device.cuda.get_device_name()})"


def make_tensor(gradient: Gradient) -> Any:
    """Return a tensor with the values of a gradient, in the memory layout that the gradient asks for."""
    assert gradient.array is not None
    if gradient.rows is not None:
        message = "row-sparse gradients come only from the backward pass of an embedding"
        raise Unsupported(message)
    values = read_values(gradient.array)
    # Without elements, all layouts are the same.
    if gradient.layout == "contiguous" or values.ndim == 0 or not values.size:
        return paddle.to_tensor(values)
    # `to_tensor` copies into row-major order, so only a view has another layout.
    if gradient.layout == "strided":
        return paddle.to_tensor(np.repeat(values, 2, axis=-1))[..., ::2]
    if gradient.layout == "transposed":
        return paddle.to_tensor(values.T.copy()).transpose(list(reversed(range(values.ndim))))
    if gradient.layout == "sliced":
        buffer, index = surround(values)
        return paddle.to_tensor(buffer)[index]
    message = f"no tensor of Paddle has the layout {gradient.layout!r}"
    raise Unsupported(message, "interface")


# Direct calls on (parameter, gradient) pairs


def call_on_pairs(make_clip: MakeClip, call: Call, options: dict[str, Any]) -> Reply:
    """Call the clip on (parameter, gradient) pairs, as a user's own optimizer would."""
    _refuse_compiled(options)
    gradients = build_tensors(call.gradients, make_tensor)
    parameters = build_tensors(call.gradients, lambda gradient: make_parameter(gradient.array, gradient.need_clip))
    pairs = [
        (make_parameter(None) if parameter is None else parameter, gradient)
        for parameter, gradient in zip(parameters, gradients)
    ]
    if options.pop("as_single", False):
        message = "the clips take a list of (parameter, gradient) pairs, not a single gradient"
        raise Unsupported(message, "interface")
    passed: Any = (pair for pair in pairs) if options.pop("as_generator", False) else pairs
    with framework_call(lambda: read_arrays(gradients)) as seen:
        returned = make_clip(**options)(passed)
    results = [gradient for _, gradient in returned]
    same = tuple(result is gradient for result, gradient in zip(results, gradients))
    return Reply(
        gradients=read_arrays(results),
        inputs=read_arrays(gradients),
        same_object=same if len(results) == len(gradients) else None,
        warnings=seen.warnings,
    )


def _refuse_compiled(options: dict[str, Any]) -> None:
    if options.pop("compiled", False):
        message = "it is a function of dynamic mode; static programs have an entry point of their own"
        raise Unsupported(message, "interface")


# paddle.nn.utils


def _call_on_parameters(
    call: Call, options: dict[str, Any], clip: Callable[[Any], Any]
) -> tuple[Any | None, tuple[Array | None, ...], tuple[str, ...]]:
    """Call a function on parameters that carry gradients.

    Return its result, the gradients afterwards and the warnings.
    """
    _refuse_compiled(options)
    parameters: list[Any] = []
    for gradient in call.gradients:
        if gradient.same_as is not None:
            parameters.append(parameters[gradient.same_as])
            continue
        if gradient.rows is not None:
            parameters.append(make_row_sparse_parameter(gradient))
            continue
        # Set `need_clip` although these functions ignore it, so that the result shows that they ignore it.
        parameters.append(make_parameter(gradient.array, gradient.need_clip))
        if gradient.array is not None:
            parameters[-1].grad = make_tensor(gradient)

    def read_gradients() -> tuple[Array | None, ...]:
        return read_arrays([parameter.grad for parameter in parameters])

    passed: Any = (parameter for parameter in parameters) if options.pop("as_generator", False) else parameters
    passed = parameters[0] if options.pop("as_single", False) else passed
    with framework_call(read_gradients) as seen:
        returned = clip(passed)
    return returned, read_gradients(), seen.warnings


def clip_grad_norm(call: Call, options: dict[str, Any]) -> Reply:
    """Call `paddle.nn.utils.clip_grad_norm_`."""
    norm, gradients, warnings = _call_on_parameters(
        call, options, lambda passed: paddle.nn.utils.clip_grad_norm_(passed, options.pop("clip_norm"), **options)
    )
    return Reply(gradients=gradients, norm=read_arrays([norm])[0], inputs=gradients, warnings=warnings)


def clip_grad_value(call: Call, options: dict[str, Any]) -> Reply:
    """Call `paddle.nn.utils.clip_grad_value_`."""
    _, gradients, warnings = _call_on_parameters(
        call, options, lambda passed: paddle.nn.utils.clip_grad_value_(passed, options.pop("max"), **options)
    )
    return Reply(gradients=gradients, inputs=gradients, warnings=warnings)


# Functions on one tensor


class _Functions(ListAdapter):
    """The entry points that take one tensor."""

    def make_tensor(self, gradient: Gradient) -> Any:
        return make_tensor(gradient)

    def read_array(self, tensor: Any) -> Array:
        return Array.of(tensor.numpy())

    def fill_tensor(self, tensor: Any, array: Array) -> None:
        values = read_values(array)
        if values.ndim:
            # `set_value` would make a view contiguous.
            tensor[...] = paddle.to_tensor(values)
        else:
            # Paddle assigns by index only to tensors with axes.
            tensor.set_value(values)


def _clip_by_norm(tensor: Any, *, clip_norm: Any, **more: Any) -> Any:
    return paddle.nn.clip.clip_by_norm(tensor, clip_norm, **more)


def _clip(tensor: Any, **bounds: Any) -> Any:
    return paddle.clip(tensor, **bounds)


def _clip_in_place(tensor: Any, **bounds: Any) -> Any:
    return tensor.clip_(**bounds)


def _make_entry(
    name: str, operation: str, dtypes: tuple[str, ...], clip: Callable[..., Any], *features: str
) -> EntryPoint:
    shared = ("repeated", "strided", "single", "threads", "tensor_threshold", "reuses")
    return EntryPoint(name, operation, dtypes, (*shared, *features), clip=apply_to_each(clip), one_by_one=True)


VALUE = ("mixed_dtypes", "min_max", "requires_min")
FUNCTIONS = _Functions(
    About("Paddle", paddle.__version__),
    [
        # "The input of clip_by_norm and data type is float32."
        _make_entry("paddle.nn.clip.clip_by_norm", "clip_by_norm", ("float32",), _clip_by_norm, "functional"),
        _make_entry("paddle.clip", "clip_by_value", BOTH, _clip, "functional", *VALUE),
        _make_entry("paddle.Tensor.clip_", "clip_by_value", BOTH, _clip_in_place, "in_place", *VALUE),
    ],
)


# The entry points

BY_VALUE, BY_NORM, BY_GLOBAL_NORM = "clip_by_value", "clip_by_norm", "clip_by_global_norm"
CLASSES = ((ClipGradByValue, BY_VALUE), (ClipGradByNorm, BY_NORM), (ClipGradByGlobalNorm, BY_GLOBAL_NORM))


def _list_features(operation: str, *more: str) -> tuple[str, ...]:
    min_max = () if OPERATIONS[operation].is_by_norm else ("min_max",)
    return ("excludes", "none_grads", "mixed_dtypes", *min_max, *more)


def _make_pair_entry(name: str, make_clip: MakeClip, operation: str) -> EntryPoint:
    # ClipGradByGlobalNorm writes into most gradients, and makes new tensors for zero-dimensional ones. Its
    # documentation mentions neither. It calls `len` on the pairs. The other classes take any iterable.
    more = () if OPERATIONS[operation].is_global else ("functional", "generator")
    features = _list_features(operation, "strided", "repeated", "threads", "tensor_threshold", *more)
    return EntryPoint(name, operation, BOTH, features, clip=partial(call_on_pairs, make_clip))


def _make_dynamic_entry(name: str, make_clip: MakeClip, operation: str, way: Way, *more: str) -> EntryPoint:
    def answer(call: Call, options: dict[str, Any]) -> Reply:
        if options.pop("compiled", False):
            if "compiles" in more:
                return step_static(make_clip, call, options)
            message = "this adapter makes static programs with SGD and the argument grad_clip"
            raise Unsupported(message)
        return step_dynamic(make_clip, call, options, way)

    features = _list_features(operation, "optimizer", "tensor_threshold", *more)
    if way.optimizer != "SGD":
        # Adam makes its learning rate in the dtype of the first parameter.
        features = tuple(feature for feature in features if feature != "mixed_dtypes")
    return EntryPoint(name, operation, BOTH, features, clip=answer)


def _make_static_entry(name: str, make_clip: MakeClip, operation: str, clipped_by: str) -> EntryPoint:
    def answer(call: Call, options: dict[str, Any]) -> Reply:
        options.pop("compiled", None)
        return step_static(make_clip, call, options, clipped_by)

    features = _list_features(operation, "optimizer", "learning_rate", "compiled")
    return EntryPoint(name, operation, BOTH, features, clip=answer)


def _list_utils_entries() -> Iterator[EntryPoint]:
    shared = ("in_place", "none_grads", "generator", "mixed_dtypes", "single", "repeated", "strided", "threads")
    # The documentation does not limit these functions to dense gradients. But that of `ParamAttr` limits `need_clip`:
    # "Whether the parameter gradient need to be clipped in optimizer."
    features = (*shared, "sparse", "tensor_threshold")
    yield EntryPoint(
        "paddle.nn.utils.clip_grad_norm_",
        "clip_by_global_norm",
        BOTH,
        ("returns_norm", "error_if_nonfinite", "norm_type", *features),
        norm_types=(1.0, 2.0, float("inf")),
        clip=clip_grad_norm,
    )
    yield EntryPoint("paddle.nn.utils.clip_grad_value_", "clip_by_value", BOTH, features, clip=clip_grad_value)


def _list_entry_points() -> Iterator[EntryPoint]:
    # Only dynamic mode gives row-sparse gradients of embeddings.
    sgd = ("groups", "learning_rate", "sparse", "training")
    for make_clip, operation in CLASSES:
        name, clip = f"paddle.nn.{make_clip.__name__}", (make_clip, operation)
        yield _make_pair_entry(name + " [called]", *clip)
        yield _make_dynamic_entry(name + " [SGD, dynamic]", *clip, Way(), "compiles", "generator", *sgd)
        yield _make_static_entry(name + " [SGD, static]", *clip, "grad_clip")
    # The other ways pass the same pairs to whichever clip they have, so one class shows what they do.
    name, clip = "paddle.nn.ClipGradByGlobalNorm", (ClipGradByGlobalNorm, BY_GLOBAL_NORM)
    auto_skip = partial(ClipGradByGlobalNorm, auto_skip_clip=True)
    yield _make_pair_entry(name + " [called, auto_skip_clip]", auto_skip, BY_GLOBAL_NORM)
    yield _make_dynamic_entry(name + " [SGD.minimize, dynamic]", *clip, Way(minimizes=True), "generator", *sgd)
    yield _make_dynamic_entry(name + " [Adam, dynamic]", *clip, Way("Adam"), "generator", "groups", "sparse")
    # "Currently, AdamW doesn't support sparse parameter optimization."
    yield _make_dynamic_entry(name + " [AdamW, dynamic]", *clip, Way("AdamW"), "generator", "groups")
    apart = ("norm_per_group", *(feature for feature in sgd if feature != "groups"))
    yield _make_dynamic_entry(name + " [SGD, a clip in each group]", *clip, Way(clips_groups=True), *apart)
    setting = "paddle.nn.clip.set_gradient_clip [ClipGradByGlobalNorm, static]"
    yield _make_static_entry(setting, *clip, "set_gradient_clip")
    errors = "paddle.nn.clip.ErrorClipByValue [static]"
    yield _make_static_entry(errors, ErrorClipByValue, BY_VALUE, "_set_error_clip")
    yield from _list_utils_entries()
    for entry in FUNCTIONS.subjects():
        yield replace(entry, clip=lambda call, options: FUNCTIONS.call(replace(call, options=options)))
