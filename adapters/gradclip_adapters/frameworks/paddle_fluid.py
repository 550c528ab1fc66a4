"""Adapt Paddle 1.8 `fluid` on Python 3.7: three clip classes, in an optimizer and in `set_gradient_clip`, and errors.

A predicate on the name excludes a parameter. The parameters of an optimizer start at minus zero and take one step. The
negated parameters then equal what the optimizer subtracted, including the sign of a zero.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from functools import partial
from typing import Any, Callable, Iterator, Sequence

import numpy as np
import paddle
from paddle import fluid
from paddle.fluid.clip import ErrorClipByValue, GradientClipByGlobalNorm, GradientClipByNorm, GradientClipByValue

from ..arrays import TRAINING, find_dtype
from ..contract import About, Array, Call, EntryPoint, Gradient, Reply, Unsupported, framework_call, read_text
from ..joined_gradients import JoinedGradients, join_by_dtype, negate_values
from ..operations import GRADIENT, OPERATIONS
from .answering import DeclaredAdapter

#: Measured with 1.8.5 on 2 cores: 1,000 gradients in a program take 10 s; 100,000 elements in `clip_by_norm` take 6 s.
MOST_IN_A_PROGRAM = 500
MOST_ELEMENTS_OF_A_NORM = 100000


class PaddleFluidAdapter(DeclaredAdapter):
    """Adapter for the clips of paddlepaddle 1.8, in the CPU build.

    `EntryPoint.clip` answers a call with its options.
    """

    def __init__(self) -> None:
        environment = {"device": "cpu", "commit": paddle.version.commit, "numpy": np.__version__}
        super().__init__(About("Paddle fluid", paddle.__version__, environment), _list_entry_points())

    def call(self, call: Call) -> Reply:
        entry = self.entry_points[call.subject]
        _refuse_ways(call)
        _refuse_unsupported(call, entry)
        reply: Reply = entry.clip(call, dict(call.options))
        return reply


def _refuse_ways(call: Call) -> None:
    """Refuse a call that is made in a way that fluid does not offer."""
    if any(gradient.same_as is not None or gradient.layout != "contiguous" for gradient in call.gradients):
        message = "fluid's gradients come from a backward pass, which gives each of them once, in fluid's own layout"
        raise Unsupported(message, "interface")
    if any(gradient.rows is not None for gradient in call.gradients) or "reused" in call.options:
        message = "this adapter makes no row-sparse gradients, and no earlier calls on the same tensors"
        raise Unsupported(message)
    if "as_generator" in call.options or "as_single" in call.options:
        message = "a user passes no gradients, because the program or the optimizer knows the parameters"
        raise Unsupported(message, "interface")
    if any(name in call.options for name in TRAINING):
        message = "this adapter takes one step, from zero"
        raise Unsupported(message)
    if "threads" in call.options:
        message = "fluid's programs, scopes and names are shared by the whole process"
        raise Unsupported(message)


def _refuse_unsupported(call: Call, entry_point: EntryPoint) -> None:
    """Refuse a call whose gradients fluid, or this CPU build, cannot clip."""
    arrays = [gradient.array for gradient in call.gradients if gradient.array is not None]
    if any(array.dtype == "bfloat16" for array in arrays):
        message = "fluid 1.8 has no bfloat16"
        raise Unsupported(message, "interface")
    if not arrays:
        message = "fluid needs a loss, and no parameter of this call takes part in one"
        raise Unsupported(message, "interface")
    if "static" in entry_point.name and len(arrays) > MOST_IN_A_PROGRAM:
        message = (
            f"fluid builds a static program in time quadratic in its gradients; at most {MOST_IN_A_PROGRAM} are tried"
        )
        raise Unsupported(message)
    uses_kernel = OPERATIONS[entry_point.operation].group == GRADIENT
    if uses_kernel and max(len(array.data) // 4 for array in arrays) > MOST_ELEMENTS_OF_A_NORM:
        message = (
            "fluid's CPU kernel `clip_by_norm` takes time quadratic in the elements, 6 s for 100,000 and ten minutes "
            f"for a million; at most {MOST_ELEMENTS_OF_A_NORM:,} are tried"
        )
        raise Unsupported(message)
    if len({array.dtype for array in arrays}) > 1:
        message = "fluid's optimizers take parameters of one dtype"
        raise Unsupported(message, "interface")
    if any(array.shape == () for array in arrays):
        message = "fluid has no 0-d tensors"
        raise Unsupported(message, "interface")


@contextlib.contextmanager
def _refuse_failed_backward(dtype: str) -> Iterator[None]:
    """Mark the backward pass that makes the gradients. Refuse the call if the CPU build has no kernels for float16."""
    try:
        yield
    except Exception as error:
        if dtype != "float16":
            raise
        lines = [line.strip() for line in read_text(error).splitlines() if line.strip(" -")] or [""]
        told = next((line for line in lines if "Error: " in line), lines[0])
        message = f"no backward pass makes such gradients: {told:.300}"
        raise Unsupported(message, "kernel") from error


#: A clip class of fluid. An option that the class does not know raises its TypeError.
MakeClip = Callable[..., Any]


@contextlib.contextmanager
def _enter_guards(*guards: Any) -> Iterator[None]:
    """Enter fluid's guards, and leave them normally even after an exception.

    The guards are generators without `finally`. An exception that passes through one would leave fluid in dygraph mode,
    in the wrong program, or on the device of the guard, for good. Each later program that feeds numbers would then
    warn that the operator feed does not support the choice of a device.
    """
    for guard in guards:
        guard.__enter__()
    try:
        yield
    finally:
        for guard in reversed(guards):
            guard.__exit__(None, None, None)


def _make_zero_attribute() -> Any:
    return fluid.ParamAttr(initializer=fluid.initializer.Constant(-0.0))


def _make_parameters(gradients: Sequence[Gradient]) -> list[Any]:
    """Return a parameter of minus zeros for each gradient, all of the dtype of the gradients."""
    shapes = [(1,) if gradient.array is None else gradient.array.shape for gradient in gradients]
    dtype = find_dtype(gradients)
    return [fluid.layers.create_parameter(list(shape), dtype, attr=_make_zero_attribute()) for shape in shapes]


def _build_predicate(parameters: Sequence[Any], gradients: Sequence[Gradient]) -> dict[str, Any]:
    """Return the argument `need_clip` that selects parameters by name, or nothing if all are included."""
    excluded = {parameter.name for parameter, gradient in zip(parameters, gradients) if not gradient.need_clip}
    return {"need_clip": lambda parameter: parameter.name not in excluded} if excluded else {}


def _build_loss(parameters: Sequence[Any], joined: JoinedGradients, data: Any) -> Any:
    """Return the sum of `parameter * gradient`.

    Its derivatives are the gradients bit for bit, including NaN and infinities.
    """
    joinable = [parameters[number] for number in joined.numbers if 0 not in parameters[number].shape]
    # fluid cannot concatenate empty tensors. Their derivatives have no elements, so any loss serves.
    terms = [fluid.layers.reduce_sum(parameters[number]) for number in joined.numbers if 0 in parameters[number].shape]
    if joinable:
        flat = fluid.layers.concat([fluid.layers.reshape(parameter, [-1]) for parameter in joinable])
        terms.append(fluid.layers.reduce_sum(fluid.layers.elementwise_mul(flat, data)))
    return fluid.layers.sums(terms)


# In dygraph


def step_dygraph(make_clip: MakeClip, call: Call, options: dict[str, Any]) -> Reply:
    """Take one step of SGD in dygraph, after a real `backward()`."""
    if options.pop("compiled", False):
        return step_static(make_clip, call, options)
    with _enter_guards(fluid.dygraph.guard(fluid.CPUPlace())):
        parameters = _make_parameters(call.gradients)
        (joined,) = join_by_dtype(call.gradients)
        with _refuse_failed_backward(joined.dtype):
            loss = _build_loss(parameters, joined, fluid.dygraph.to_variable(joined.values))
            loss.backward()
        with framework_call() as seen:
            optimizer = fluid.optimizer.SGDOptimizer(
                learning_rate=options.pop("learning_rate", 1.0),
                parameter_list=parameters,
                grad_clip=make_clip(**options, **_build_predicate(parameters, call.gradients)),
            )
            optimizer.minimize(loss)
        results = negate_values([parameter.numpy() for parameter in parameters], call.gradients)
        inputs = tuple(
            None if gradient.array is None else Array.of(parameter.gradient())
            for parameter, gradient in zip(parameters, call.gradients)
        )
    return Reply(gradients=results, inputs=inputs, warnings=seen.warnings)


# In a static program


@dataclass(frozen=True)
class Network:
    """A static program whose parameters get the gradients of a call."""

    parameters: list[Any]
    loss: Any
    feed: dict[str, np.ndarray[Any, Any]]


@contextlib.contextmanager
def _enter_static_network(
    gradients: Sequence[Gradient], copy: Callable[[Any, Gradient], Any] | None = None
) -> Iterator[Network]:
    """Enter a new program with new variables and names. `copy` makes copies of the parameters, which the loss takes."""
    scope, program = fluid.scope_guard(fluid.Scope()), fluid.program_guard(fluid.Program(), fluid.Program())
    # Fluid's optimizers enter a guard of devices themselves; this one undoes what an error in theirs leaves behind.
    with _enter_guards(scope, program, fluid.unique_name.guard(), fluid.device_guard()):
        parameters = _make_parameters(gradients)
        (joined,) = join_by_dtype(gradients)
        data = fluid.data("gradients", list(joined.values.shape), joined.dtype)
        with _refuse_failed_backward(joined.dtype):
            copies = [copy(*pair) for pair in zip(parameters, gradients)] if copy else parameters
            loss = _build_loss(copies, joined, data)
        yield Network(parameters, loss, {"gradients": joined.values})


def _run(network: Network, fetch: Sequence[Any]) -> list[np.ndarray[Any, Any]]:
    executor = fluid.Executor(fluid.CPUPlace())
    executor.run(fluid.default_startup_program())
    fetched = executor.run(fluid.default_main_program(), feed=network.feed, fetch_list=list(fetch))
    if any(value is None for value in fetched):
        message = "fluid returns None for a fetched tensor of size zero"
        raise Unsupported(message)
    return [np.array(value) for value in fetched]


def step_static(make_clip: MakeClip, call: Call, options: dict[str, Any]) -> Reply:
    """Take one step of SGD in a static program."""
    with _enter_static_network(call.gradients) as network:
        with framework_call() as seen:
            optimizer = fluid.optimizer.SGDOptimizer(
                learning_rate=options.pop("learning_rate", 1.0),
                grad_clip=make_clip(**options, **_build_predicate(network.parameters, call.gradients)),
            )
            optimizer.minimize(network.loss)
            _run(network, ())
        results = _read_parameters(network, call.gradients)
    return Reply(gradients=results, warnings=seen.warnings)


def _read_parameters(network: Network, gradients: Sequence[Gradient]) -> tuple[Array | None, ...]:
    scope = fluid.global_scope()
    values = [np.array(scope.find_var(parameter.name).get_tensor()) for parameter in network.parameters]
    return negate_values(values, gradients)


def clip_errors_static(make_clip: MakeClip, call: Call, options: dict[str, Any]) -> Reply:
    """Take one step of SGD in a static program that clips the errors of copies of the parameters.

    An error is the derivative by a variable inside a network. Each parameter's gradient flows through its copy.
    """
    if any(gradient.array is not None and 0 in gradient.array.shape for gradient in call.gradients):
        message = "fluid's layer `assign` makes no copy of a tensor without elements"
        raise Unsupported(message, "interface")

    def copy(parameter: Any, gradient: Gradient) -> Any:
        copied = fluid.layers.assign(parameter)
        if gradient.need_clip:
            with framework_call():
                copied._set_error_clip(make_clip(**options))
        return copied

    rate = options.pop("learning_rate", 1.0)
    with _enter_static_network(call.gradients, copy) as network:
        with framework_call() as seen:
            fluid.optimizer.SGDOptimizer(learning_rate=rate).minimize(network.loss)
            _run(network, ())
        results = _read_parameters(network, call.gradients)
    return Reply(gradients=results, warnings=seen.warnings)


def set_two_clips_static(make_clip: MakeClip, call: Call, options: dict[str, Any]) -> Reply:
    """Call `set_gradient_clip` for the parameters of a call, and again for one more parameter.

    The clip of the other parameter has infinite bounds, so it changes nothing, whichever gradients fluid gives it.
    """
    rate = options.pop("learning_rate", 1.0)
    with _enter_static_network(call.gradients) as network, framework_call() as seen:
        included = [parameter for parameter, gradient in zip(network.parameters, call.gradients) if gradient.need_clip]
        other = fluid.layers.create_parameter([1], network.loss.dtype, attr=_make_zero_attribute())
        loss = fluid.layers.sums([network.loss, fluid.layers.reduce_sum(other)])
        fluid.clip.set_gradient_clip(make_clip(**options), included)
        fluid.clip.set_gradient_clip(GradientClipByValue(float("inf")), [other])
        fluid.optimizer.SGDOptimizer(learning_rate=rate).minimize(loss)
        _run(network, ())
        results = _read_parameters(network, call.gradients)
    return Reply(gradients=results, warnings=seen.warnings)


def set_gradient_clip_static(make_clip: MakeClip, call: Call, options: dict[str, Any]) -> Reply:
    """Call `set_gradient_clip` and `append_gradient_clip_ops`, and fetch all gradients in one run.

    These functions take a list of the included parameters instead of a predicate.
    """
    with _enter_static_network(call.gradients) as network, framework_call() as seen:
        pairs = fluid.backward.append_backward(network.loss)
        included = [parameter for parameter, gradient in zip(network.parameters, call.gradients) if gradient.need_clip]
        everything = len(included) == len(network.parameters)
        groups: dict[int, list[Any]] = {}
        for parameter, gradient in zip(network.parameters, call.gradients):
            groups.setdefault(gradient.group, []).append(parameter)
        if len(groups) == 1:
            fluid.clip.set_gradient_clip(make_clip(**options), param_list=None if everything else included)
        for number, parameters in groups.items() if len(groups) > 1 else ():
            fluid.clip.set_gradient_clip(make_clip(**options, group_name=f"group{number}"), parameters)
        clipped = fluid.clip.append_gradient_clip_ops(pairs)
        fetched = _run(network, [gradient for _, gradient in pairs] + [gradient for _, gradient in clipped])
        before, after = fetched[: len(pairs)], fetched[len(pairs) :]
    return Reply(
        gradients=_sort_by_parameter(network.parameters, clipped, after),
        inputs=_sort_by_parameter(network.parameters, pairs, before),
        warnings=seen.warnings,
    )


def _sort_by_parameter(
    parameters: Sequence[Any], pairs: Sequence[Any], values: Sequence[np.ndarray[Any, Any]]
) -> tuple[Array | None, ...]:
    """Return the fetched gradients in the order of the parameters, which fluid does not keep."""
    found = {pair[0].name: Array.of(value) for pair, value in zip(pairs, values)}
    return tuple(found.get(parameter.name) for parameter in parameters)


# The entry points

#: The dtypes of gradients. The documentation of the clips excludes neither, and the optimizers take both.
DTYPES = ("float32", "float64")

CLASSES = (
    (GradientClipByValue, "clip_by_value"),
    (GradientClipByNorm, "clip_by_norm"),
    (GradientClipByGlobalNorm, "clip_by_global_norm"),
)


def _list_entry_points() -> Iterator[EntryPoint]:
    in_optimizer = ("optimizer", "learning_rate")
    for make_clip, operation in CLASSES:
        common = ("excludes", "none_grads") + (() if OPERATIONS[operation].is_by_norm else ("min_max",))
        for way, answer, more in (
            ("SGD, dygraph", step_dygraph, (*in_optimizer, "compiles")),
            ("SGD, static", step_static, (*in_optimizer, "compiled")),
            ("set_gradient_clip, static", set_gradient_clip_static, ("functional", "compiled")),
        ):
            name = f"paddle.fluid.clip.{make_clip.__name__} [{way}]"
            # The documentation of the argument `group_name`: "The group name for this clip."
            has_groups = make_clip is GradientClipByGlobalNorm and answer is set_gradient_clip_static
            features = common + more + (("norm_per_group",) if has_groups else ())
            yield EntryPoint(name, operation, DTYPES, features, clip=partial(answer, make_clip))
        # The documentation of `set_gradient_clip`: "To specify parameters that require gradient clip."
        name = f"paddle.fluid.clip.set_gradient_clip [{make_clip.__name__} beside another, static]"
        features = (*common, *in_optimizer, "compiled")
        clip = partial(set_two_clips_static, make_clip)
        yield EntryPoint(name, operation, DTYPES, features, clip=clip)
    features = ("excludes", "none_grads", "min_max", *in_optimizer, "compiled")
    name, clip = "paddle.fluid.clip.ErrorClipByValue [static]", partial(clip_errors_static, ErrorClipByValue)
    yield EntryPoint(name, "clip_by_value", DTYPES, features, clip=clip)
