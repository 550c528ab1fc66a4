"""Adapt Paddle 1.8 `fluid` on Python 3.7: three clip classes, in an optimizer and in `set_gradient_clip`.

A predicate on its name excludes a parameter. The parameters of an optimizer start at minus zero and take one step. The
negated parameters then equal what the optimizer subtracted, including the sign of a zero.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from typing import Any, Callable, Dict, Iterator, List, Optional, Sequence, Tuple

import numpy as np
import paddle
from paddle import fluid
from paddle.fluid.clip import GradientClipByGlobalNorm, GradientClipByNorm, GradientClipByValue

from .contract import About, Adapter, Array, Call, Gradient, Reply, Subject, Unsupported, framework_call, text_of
from .linear_layers import JoinedGradients, build_linear_layers, join_by_dtype, negate_values

__all__ = ["PaddleFluidAdapter"]

#: Measured with 1.8.5 on 2 cores: 1,000 gradients in a program take 10 s, and 100,000 elements in `clip_by_norm` 6 s.
MOST_IN_A_PROGRAM = 500
MOST_ELEMENTS_OF_A_NORM = 100000


class PaddleFluidAdapter(Adapter):
    """Adapter for the clips of paddlepaddle 1.8, in the CPU build."""

    def about(self) -> About:
        """Return Paddle's version and build."""
        environment = {"device": "cpu", "commit": paddle.version.commit, "numpy": np.__version__}
        return About("Paddle fluid", paddle.__version__, environment)

    def subjects(self) -> Sequence[Subject]:
        """Return all entry points: each class in three ways of use."""
        return [entry.subject for entry in ENTRY_POINTS.values()]

    def call(self, call: Call) -> Reply:
        """Return the answer of the entry point that the call names."""
        entry = ENTRY_POINTS[call.subject]
        _refuse_ways(call)
        _refuse_unsupported(call, entry.subject)
        return entry.answer(entry.clip_class, call, dict(call.options))


@dataclass(frozen=True)
class ClipClass:
    """A clip class of fluid and the arguments that a case may set."""

    make: Callable[..., Any]
    operation: str
    options: Tuple[str, ...]

    def __call__(self, options: Dict[str, Any], **more: Any) -> Any:
        """Return the clip object of these options; an option that the class does not know raises its TypeError."""
        return self.make(**options, **more)


@dataclass(frozen=True)
class EntryPoint:
    """An entry point of fluid, and the function that calls it."""

    subject: Subject
    clip_class: ClipClass
    answer: Callable[[ClipClass, Call, Dict[str, Any]], Reply]


def _refuse_ways(call: Call) -> None:
    """Refuse the ways of a call that fluid's clips do not have.

    Raises
    ------
    Unsupported
        When the call asks for one.
    """
    if any(gradient.same_as is not None or gradient.layout != "contiguous" for gradient in call.gradients):
        message = "fluid's gradients come from a backward pass: each once, in the layout that fluid gives it"
        raise Unsupported(message, "interface")
    if any(gradient.rows is not None for gradient in call.gradients) or "reused" in call.options:
        message = "no row-sparse gradients, and no earlier calls on the same tensors, are made here"
        raise Unsupported(message)
    if "as_generator" in call.options or "as_single" in call.options:
        message = "the program, or the optimizer, knows the parameters: nobody passes gradients"
        raise Unsupported(message, "interface")
    if "threads" in call.options:
        message = "fluid's programs, scopes and names belong to the whole process"
        raise Unsupported(message)


def _refuse_unsupported(call: Call, subject: Subject) -> None:
    arrays = [gradient.array for gradient in call.gradients if gradient.array is not None]
    if any(array.dtype == "bfloat16" for array in arrays):
        message = "fluid 1.8 has no bfloat16"
        raise Unsupported(message, "interface")
    if not arrays:
        message = "fluid needs a loss, and here no parameter takes part in one"
        raise Unsupported(message, "interface")
    if "static" in subject.name and len(arrays) > MOST_IN_A_PROGRAM:
        message = "fluid builds a static program in time quadratic in its gradients; at most {} are tried".format(
            MOST_IN_A_PROGRAM
        )
        raise Unsupported(message)
    if subject.operation == "clip_by_norm" and max(len(array.data) // 4 for array in arrays) > MOST_ELEMENTS_OF_A_NORM:
        message = (
            "fluid's CPU kernel `clip_by_norm` takes time quadratic in the elements, 6 s for 100,000 and ten minutes "
            "for a million; at most {:,} are tried"
        ).format(MOST_ELEMENTS_OF_A_NORM)
        raise Unsupported(message)
    if len({array.dtype for array in arrays}) > 1:
        message = "fluid's optimizers take parameters of one dtype"
        raise Unsupported(message, "interface")
    if any(array.shape == () for array in arrays):
        message = "fluid has no 0-d tensors"
        raise Unsupported(message, "interface")


@contextlib.contextmanager
def _enter_guards(*guards: Any) -> Iterator[None]:
    """Enter fluid's guards, and leave them normally even after an exception.

    The guards are generators without `finally`. An exception that passes through one would leave fluid in dygraph mode,
    or in the wrong program, for good.
    """
    for guard in guards:
        guard.__enter__()
    try:
        yield
    finally:
        for guard in reversed(guards):
            guard.__exit__(None, None, None)


@contextlib.contextmanager
def _make_gradients(dtype: str) -> Iterator[None]:
    """Mark the lines that make the gradients; the CPU build has no kernels for those of float16.

    Raises
    ------
    Unsupported
        When fluid cannot make them.
    """
    try:
        yield
    except Exception as error:
        if dtype != "float16":
            raise
        lines = [line.strip() for line in text_of(error).splitlines() if line.strip(" -")] or [""]
        told = next((line for line in lines if "Error: " in line), lines[0])
        message = "no backward pass makes such gradients: {:.300}".format(told)
        raise Unsupported(message, "kernel") from error


def _make_zero_attribute() -> Any:
    return fluid.ParamAttr(initializer=fluid.initializer.Constant(-0.0))


def _build_predicate(parameters: Sequence[Any], gradients: Sequence[Gradient]) -> Dict[str, Any]:
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


def step_dygraph(clip_class: ClipClass, call: Call, options: Dict[str, Any]) -> Reply:
    """Take one step of SGD on `dygraph.Linear` layers, after a real `backward()`."""
    if options.pop("compiled", False):
        return step_static(clip_class, call, options)
    layers = build_linear_layers(call.gradients)
    with _enter_guards(fluid.dygraph.guard(fluid.CPUPlace())):
        every, by_number = [], {}  # type: List[Any], Dict[Optional[int], Any]
        for layer in layers:
            if layer.shape is not None:
                alone = fluid.layers.create_parameter(list(layer.shape), layer.dtype, attr=_make_zero_attribute())
                every.append(alone)
                by_number[layer.weight] = alone
                continue
            linear = fluid.dygraph.Linear(
                layer.in_features,
                layer.out_features,
                param_attr=_make_zero_attribute(),
                bias_attr=_make_zero_attribute(),
                dtype=layer.dtype,
            )
            every.extend(linear.parameters())
            by_number.update({layer.weight: linear.weight, layer.bias: linear.bias})
        parameters = [by_number[number] for number in range(len(call.gradients))]
        (joined,) = join_by_dtype(call.gradients)
        with _make_gradients(joined.dtype):
            loss = _build_loss(parameters, joined, fluid.dygraph.to_variable(joined.values))
            loss.backward()
        with framework_call() as seen:
            optimizer = fluid.optimizer.SGDOptimizer(
                learning_rate=options.pop("learning_rate", 1.0),
                parameter_list=every,
                grad_clip=clip_class(options, **_build_predicate(parameters, call.gradients)),
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

    parameters: List[Any]
    loss: Any
    feed: Dict[str, np.ndarray[Any, Any]]


@contextlib.contextmanager
def _enter_static_network(gradients: Sequence[Gradient]) -> Iterator[Network]:
    """Enter a new program with new variables and names."""
    scope, program = fluid.scope_guard(fluid.Scope()), fluid.program_guard(fluid.Program(), fluid.Program())
    with _enter_guards(scope, program, fluid.unique_name.guard()):
        parameters = []
        for gradient in gradients:
            shape, dtype = ((1,), "float32") if gradient.array is None else (gradient.array.shape, gradient.array.dtype)
            parameters.append(fluid.layers.create_parameter(list(shape), dtype, attr=_make_zero_attribute()))
        (joined,) = join_by_dtype(gradients)
        data = fluid.data("gradients", list(joined.values.shape), joined.dtype)
        with _make_gradients(joined.dtype):
            loss = _build_loss(parameters, joined, data)
        yield Network(parameters, loss, {"gradients": joined.values})


def _run(network: Network, fetch: Sequence[Any]) -> List[np.ndarray[Any, Any]]:
    executor = fluid.Executor(fluid.CPUPlace())
    executor.run(fluid.default_startup_program())
    fetched = executor.run(fluid.default_main_program(), feed=network.feed, fetch_list=list(fetch))
    if any(value is None for value in fetched):
        message = "fluid fetches nothing of a tensor of size zero"
        raise Unsupported(message)
    return [np.array(value) for value in fetched]


def step_static(clip_class: ClipClass, call: Call, options: Dict[str, Any]) -> Reply:
    """Take one step of SGD in a static program."""
    with _enter_static_network(call.gradients) as network:
        with framework_call() as seen:
            optimizer = fluid.optimizer.SGDOptimizer(
                learning_rate=options.pop("learning_rate", 1.0),
                grad_clip=clip_class(options, **_build_predicate(network.parameters, call.gradients)),
            )
            optimizer.minimize(network.loss)
            _run(network, ())
        scope = fluid.global_scope()
        values = [np.array(scope.find_var(parameter.name).get_tensor()) for parameter in network.parameters]
    return Reply(gradients=negate_values(values, call.gradients), warnings=seen.warnings)


def set_gradient_clip_static(clip_class: ClipClass, call: Call, options: Dict[str, Any]) -> Reply:
    """Call `set_gradient_clip` and `append_gradient_clip_ops`, and fetch all gradients in one run.

    These functions take a list of the included parameters instead of a predicate.
    """
    with _enter_static_network(call.gradients) as network, framework_call() as seen:
        pairs = fluid.backward.append_backward(network.loss)
        included = [parameter for parameter, gradient in zip(network.parameters, call.gradients) if gradient.need_clip]
        everything = len(included) == len(network.parameters)
        fluid.clip.set_gradient_clip(clip_class(options), param_list=None if everything else included)
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
) -> Tuple[Optional[Array], ...]:
    """Return the fetched gradients in the order of the parameters, which fluid does not keep."""
    found = {pair[0].name: Array.of(value) for pair, value in zip(pairs, values)}
    return tuple(found.get(parameter.name) for parameter in parameters)


# The entry points

#: The dtypes of gradients: the documentation of the clips excludes neither, and the optimizers take both.
DTYPES = ("float32", "float64")

CLASSES = (
    ClipClass(GradientClipByValue, "clip_by_value", ("max", "min")),
    ClipClass(GradientClipByNorm, "clip_by_norm", ("clip_norm",)),
    ClipClass(GradientClipByGlobalNorm, "clip_by_global_norm", ("clip_norm",)),
)


def _list_entry_points() -> Iterator[EntryPoint]:
    for clip_class in CLASSES:
        common = ("excludes", "none_grads") + (("min_max",) if "min" in clip_class.options else ())
        in_optimizer = ("optimizer", "learning_rate")
        for way, answer, more in (
            ("SGD, dygraph", step_dygraph, in_optimizer + ("compiles",)),
            ("SGD, static", step_static, in_optimizer + ("compiled",)),
            ("set_gradient_clip, static", set_gradient_clip_static, ("functional", "compiled")),
        ):
            name = "paddle.fluid.clip.{} [{}]".format(clip_class.make.__name__, way)
            subject = Subject(name, clip_class.operation, DTYPES, common + more)
            yield EntryPoint(subject, clip_class, answer)


ENTRY_POINTS = {entry.subject.name: entry for entry in _list_entry_points()}
