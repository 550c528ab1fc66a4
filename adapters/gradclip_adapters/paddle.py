"""Paddle: the three clip classes, called by hand and through an optimizer, and the two functions of `paddle.nn.utils`.

`paddle_optimizer` holds the way through an optimizer. This process computes on the CPU.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Callable, Dict, Iterator, List, Optional, Sequence, Tuple

import numpy as np
import paddle
from paddle.nn import ClipGradByGlobalNorm, ClipGradByNorm, ClipGradByValue

from .arrays import build_tensors, in_threads
from .contract import About, Adapter, Array, Call, Gradient, Reply, Subject, Unsupported, framework_call, options_of
from .paddle_optimizer import arrays_of, step_dynamic, step_static, zero_attribute

__all__ = ["PaddleAdapter"]

#: What the CPU kernels take: in version 3.3.1 none of them takes a 16-bit dtype, and `clip_by_norm` float32 only.
SINGLE = ("float32",)
BOTH = ("float32", "float64")


class PaddleAdapter(Adapter):
    """The gradient clips of paddlepaddle 2 and 3."""

    def __init__(self) -> None:
        paddle.set_device("cpu")

    def about(self) -> About:
        """Paddle's version and build."""
        environment = {"device": paddle.get_device(), "commit": paddle.version.commit, "numpy": np.__version__}
        return About("Paddle", paddle.__version__, environment)

    def subjects(self) -> Sequence[Subject]:
        """Each class in three ways of use, and the two functions."""
        return [entry.subject for entry in ENTRY_POINTS.values()]

    def call(self, call: Call) -> Reply:
        """Answer through the entry point that the call names."""
        entry = ENTRY_POINTS[call.subject]
        if "threads" in call.options:
            return in_threads(call, self.call)
        _refuse_other_dtypes(call, entry.subject)
        if entry.subject.operation == "clip_by_value" and any(gradient.rows is not None for gradient in call.gradients):
            message = "of a gradient of some rows only, {} reads memory that nobody wrote: ".format(entry.subject.name)
            message += "it raises OSError or kills the process, by chance (3.3.1)"
            raise Unsupported(message)
        options = options_of(call, *entry.options)
        return entry.answer(call, options)


@dataclass(frozen=True)
class EntryPoint:
    """A subject, the options it knows, and the function that answers for it."""

    subject: Subject
    options: Tuple[str, ...]
    answer: Callable[[Call, Dict[str, Any]], Reply]


@dataclass(frozen=True)
class ClipClass:
    """One of Paddle's clip classes with the arguments that a case may set."""

    make: Callable[..., Any]
    operation: str
    dtypes: Tuple[str, ...]
    options: Tuple[str, ...]
    fixed: Tuple[Tuple[str, Any], ...] = ()

    def __call__(self, options: Dict[str, Any]) -> Any:
        """Make the clip that the options of a call describe."""
        return self.make(**{name: options[name] for name in self.options if name in options}, **dict(self.fixed))


def _refuse_other_dtypes(call: Call, subject: Subject) -> None:
    found = {gradient.array.dtype for gradient in call.gradients if gradient.array is not None}
    unknown = sorted(found - set(subject.dtypes))
    if unknown:
        message = "{} has no CPU kernel for {}".format(subject.name, ", ".join(unknown))
        raise Unsupported(message)


# Called by hand on (parameter, gradient) pairs


def call_on_pairs(clip_class: ClipClass, call: Call, options: Dict[str, Any]) -> Reply:
    """Call the clip on pairs, as an optimizer of one's own would."""
    gradients = build_tensors(call.gradients, tensor_of)
    parameters = build_tensors(call.gradients, lambda gradient: _parameter(gradient.array, gradient.need_clip))
    pairs = [
        (_parameter(None) if parameter is None else parameter, gradient)
        for parameter, gradient in zip(parameters, gradients)
    ]
    with framework_call(lambda: arrays_of(gradients)) as seen:
        returned = clip_class(options)(pairs)
    results = _with_the_dropped(pairs, returned)
    same = tuple(result is gradient for result, gradient in zip(results, gradients))
    return Reply(
        gradients=arrays_of(results),
        inputs=arrays_of(gradients),
        same_object=same if len(results) == len(gradients) else None,
        warnings=seen.warnings,
    )


def tensor_of(gradient: Gradient) -> Any:
    """A tensor with a gradient's values that lies in memory as the gradient says."""
    assert gradient.array is not None
    values = gradient.array.numpy()
    if gradient.layout == "contiguous" or values.ndim == 0:
        return paddle.to_tensor(values)
    # `to_tensor` copies into row-major order, so the layout has to come from a view.
    if gradient.layout == "strided":
        return paddle.to_tensor(np.repeat(values, 2, axis=-1))[..., ::2]
    if gradient.layout == "transposed":
        return paddle.to_tensor(values.T.copy()).transpose(list(reversed(range(values.ndim))))
    if gradient.layout == "sliced":
        return paddle.to_tensor(np.pad(values, 1, mode="edge"))[(slice(1, -1),) * values.ndim]
    message = "no layout {!r} here".format(gradient.layout)
    raise Unsupported(message)


def _parameter(array: Optional[Array], need_clip: bool = True) -> Any:
    shape, dtype = ((1,), "float32") if array is None else (array.shape, array.dtype)
    return paddle.create_parameter(list(shape), dtype, attr=zero_attribute(need_clip))


def _with_the_dropped(pairs: Sequence[Any], returned: Sequence[Any]) -> List[Optional[Any]]:
    """The returned gradients; a pair that Paddle left out because it had no gradient stands at its place again."""
    rest, results = list(returned), []
    for parameter, gradient in pairs:
        if rest and (gradient is not None or rest[0][0] is parameter):
            results.append(rest.pop(0)[1])
        elif gradient is None:
            results.append(None)
    return results + [gradient for _, gradient in rest]


# paddle.nn.utils


def _call_on_parameters(
    call: Call, options: Dict[str, Any], clip: Callable[[Any], Any]
) -> Tuple[Optional[Any], Tuple[Optional[Array], ...], Tuple[str, ...]]:
    """Call a function on parameters that carry gradients: what it returned, the gradients afterwards, warnings."""
    parameters: List[Any] = []
    for gradient in call.gradients:
        if gradient.same_as is not None:
            parameters.append(parameters[gradient.same_as])
            continue
        parameters.append(_parameter(gradient.array))
        if gradient.array is not None:
            parameters[-1].grad = paddle.to_tensor(gradient.array.numpy())

    def gradients() -> Tuple[Optional[Array], ...]:
        return arrays_of([parameter.grad for parameter in parameters])

    passed: Any = (parameter for parameter in parameters) if options.get("as_generator") else parameters
    passed = parameters[0] if options.get("as_single") else passed
    with framework_call(gradients) as seen:
        returned = clip(passed)
    return returned, gradients(), seen.warnings


def clip_grad_norm(call: Call, options: Dict[str, Any]) -> Reply:
    """`paddle.nn.utils.clip_grad_norm_`."""
    keywords = {name: options[name] for name in ("norm_type", "error_if_nonfinite") if name in options}
    norm, gradients, warnings = _call_on_parameters(
        call, options, lambda passed: paddle.nn.utils.clip_grad_norm_(passed, options["clip_norm"], **keywords)
    )
    return Reply(gradients=gradients, norm=arrays_of([norm])[0], inputs=gradients, warnings=warnings)


def clip_grad_value(call: Call, options: Dict[str, Any]) -> Reply:
    """`paddle.nn.utils.clip_grad_value_`."""
    _, gradients, warnings = _call_on_parameters(
        call, options, lambda passed: paddle.nn.utils.clip_grad_value_(passed, options["max"])
    )
    return Reply(gradients=gradients, inputs=gradients, warnings=warnings)


# The subjects

CLASSES = {
    "paddle.nn.ClipGradByValue": ClipClass(ClipGradByValue, "clip_by_value", BOTH, ("max", "min")),
    "paddle.nn.ClipGradByNorm": ClipClass(ClipGradByNorm, "clip_by_norm", SINGLE, ("clip_norm",)),
    "paddle.nn.ClipGradByGlobalNorm": ClipClass(ClipGradByGlobalNorm, "clip_by_global_norm", BOTH, ("clip_norm",)),
}
AUTO_SKIP = ClipClass(
    ClipGradByGlobalNorm, "clip_by_global_norm", BOTH, ("clip_norm",), fixed=(("auto_skip_clip", True),)
)


def _features(clip_class: ClipClass, *more: str) -> Tuple[str, ...]:
    found = ["excludes", "none_grads", *more]
    if "min" in clip_class.options:
        found.append("min_max")
    if clip_class.dtypes == BOTH:
        found.append("mixed_dtypes")
    return tuple(found)


def _on_pairs(name: str, clip_class: ClipClass) -> EntryPoint:
    # ClipGradByGlobalNorm writes into the gradients that have a dimension and makes new ones of those that have none;
    # its documentation promises neither.
    more = () if clip_class.make is ClipGradByGlobalNorm else ("functional",)
    features = _features(clip_class, "strided", "repeated", "threads", *more)
    subject = Subject(name, clip_class.operation, clip_class.dtypes, features)
    return EntryPoint(subject, clip_class.options, lambda call, options: call_on_pairs(clip_class, call, options))


def _in_optimizer(name: str, clip_class: ClipClass, *more: str) -> EntryPoint:
    steps = {False: step_dynamic, True: step_static}
    always = "compiled" in more
    # The gradient of an embedding holds some rows only in dynamic mode alone.
    ways = () if always else ("compiles", "sparse")
    features = _features(clip_class, "optimizer", "learning_rate", *more, *ways)
    return EntryPoint(
        Subject(name, clip_class.operation, clip_class.dtypes, features),
        (*clip_class.options, "learning_rate", *(() if always else ("compiled",))),
        lambda call, options: steps[always or options.get("compiled", False)](clip_class, call, options),
    )


def _in_utils() -> Iterator[EntryPoint]:
    features = ("in_place", "none_grads", "generator", "single", "repeated", "threads")
    norms = Subject(
        "paddle.nn.utils.clip_grad_norm_",
        "clip_by_global_norm",
        BOTH,
        ("returns_norm", "error_if_nonfinite", "norm_type", *features),
        norm_types=(1.0, 2.0, float("inf")),
    )
    yield EntryPoint(
        norms, ("clip_norm", "norm_type", "error_if_nonfinite", "as_generator", "as_single"), clip_grad_norm
    )
    values = Subject("paddle.nn.utils.clip_grad_value_", "clip_by_value", BOTH, (*features, "mixed_dtypes"))
    yield EntryPoint(values, ("max", "as_generator", "as_single"), clip_grad_value)


def _entry_points() -> Iterator[EntryPoint]:
    for name, clip_class in CLASSES.items():
        yield _on_pairs(name + " [called]", clip_class)
        yield _in_optimizer(name + " [SGD, dynamic]", clip_class)
        yield _in_optimizer(name + " [SGD, static]", clip_class, "compiled")
    yield _on_pairs("paddle.nn.ClipGradByGlobalNorm [called, auto_skip_clip]", AUTO_SKIP)
    yield from _in_utils()


ENTRY_POINTS = {entry.subject.name: entry for entry in _entry_points()}
