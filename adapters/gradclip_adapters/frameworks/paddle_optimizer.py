"""Run Paddle's clips in an optimizer: one step of SGD on real linear layers, in dynamic and in static mode.

The parameters start at minus zero and take one step. The negated parameters then equal what the optimizer subtracted,
including the sign of a zero.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from typing import Any, Callable, Dict, Iterator, List, Optional, Sequence, Tuple

import numpy as np
import paddle

from ..contract import Array, Call, Gradient, Reply, Unsupported, framework_call, read_text
from ..linear_layers import (
    JoinedGradients,
    LinearLayer,
    build_linear_layers,
    join_by_dtype,
    negate_values,
    read_values,
)

__all__ = ["make_zero_attribute", "read_arrays", "refuse_empty", "step_dynamic", "step_static"]

#: Measured with 3.3.1 on 2 cores: a program of 200 gradients takes 1 s, one of 1,000 takes 15 s.
MOST_IN_A_PROGRAM = 500

#: The options of several backward passes and steps.
TRAINING = ("start", "weight_decay", "steps", "accumulate")

#: A function that makes a clip from the options of a call, and raises what Paddle raises.
MakeClip = Callable[[Dict[str, Any]], Any]


def read_arrays(tensors: Sequence[Optional[Any]]) -> Tuple[Optional[Array], ...]:
    """Return the elements of each tensor, and None for None."""
    return tuple(None if tensor is None else Array.of(tensor.numpy()) for tensor in tensors)


def make_zero_attribute(need_clip: bool) -> Any:
    """Return the attribute of a parameter that starts at minus zero."""
    return paddle.ParamAttr(initializer=paddle.nn.initializer.Constant(-0.0), need_clip=need_clip)


def refuse_empty(arrays: Sequence[Optional[Array]]) -> None:
    """Refuse gradients without elements in Paddle 2, which makes no such parameters.

    Raises
    ------
    Unsupported
        If there is one.
    """
    if paddle.__version__.startswith("2.") and any(array is not None and 0 in array.shape for array in arrays):
        message = "Paddle 2 makes no parameters without elements"
        raise Unsupported(message, "interface")


@dataclass(frozen=True)
class Parameters:
    """The parameters of real layers: as one list, and by the number of the gradient."""

    every: List[Any]
    by_number: Dict[int, Any]
    #: The layers of row-sparse gradients.
    embeddings: Dict[int, Any]


def _build_layers(layers: Sequence[LinearLayer], gradients: Sequence[Gradient]) -> Parameters:
    """Build layers of minus zeros, and exclude by attribute each parameter whose gradient is excluded."""

    def make_attribute(number: Optional[int]) -> Any:
        return make_zero_attribute(True if number is None else gradients[number].need_clip)

    refuse_empty([gradient.array for gradient in gradients])
    parameters = Parameters([], {}, {})
    for layer in layers:
        if layer.weight is not None and gradients[layer.weight].rows is not None:
            with _use_default_dtype(layer.dtype):
                embedding = paddle.nn.Embedding(
                    layer.in_features, layer.out_features, sparse=True, weight_attr=make_attribute(layer.weight)
                )
            parameters.every.append(embedding.weight)
            parameters.by_number[layer.weight] = embedding.weight
            parameters.embeddings[layer.weight] = embedding
            continue
        if layer.shape is not None:
            assert layer.weight is not None
            alone = paddle.create_parameter(list(layer.shape), layer.dtype, attr=make_attribute(layer.weight))
            parameters.every.append(alone)
            parameters.by_number[layer.weight] = alone
            continue
        with _use_default_dtype(layer.dtype):
            linear = paddle.nn.Linear(
                layer.in_features,
                layer.out_features,
                weight_attr=make_attribute(layer.weight),
                bias_attr=make_attribute(layer.bias),
            )
        parameters.every.extend(linear.parameters())
        for number, parameter in ((layer.weight, linear.weight), (layer.bias, linear.bias)):
            if number is not None:
                parameters.by_number[number] = parameter
    return parameters


@contextlib.contextmanager
def _use_default_dtype(dtype: str) -> Iterator[None]:
    before = paddle.get_default_dtype()
    paddle.set_default_dtype(dtype)
    try:
        yield
    finally:
        paddle.set_default_dtype(before)


def _build_row_losses(parameters: Parameters, gradients: Sequence[Gradient]) -> List[Any]:
    """Return a loss for each embedding: the sum of the products of the looked-up rows and the wanted gradients."""
    terms = []
    for number, embedding in parameters.embeddings.items():
        array, rows = gradients[number].array, gradients[number].rows
        assert array is not None
        terms.append((embedding(paddle.to_tensor(rows)) * paddle.to_tensor(read_values(array))).sum().astype("float64"))
    return terms


def _build_loss(
    parameters: Parameters, joined: Sequence[JoinedGradients], data: Sequence[Any], rows: Sequence[Any] = ()
) -> Any:
    """Return the sum of `parameter * gradient`.

    Its derivatives are the gradients bit for bit, including NaN and infinities.
    """
    terms = list(rows)
    for part, values in zip(joined, data):
        flat = paddle.concat([parameters.by_number[number].flatten() for number in part.numbers])
        # Sums of several dtypes are added in float64. The backward pass multiplies by an exact 1.
        terms.append((flat * values).sum().astype("float64"))
    return sum(terms) if terms else None


def refuse_repeats_and_layouts(call: Call) -> None:
    """Refuse repeated gradients and layouts, because no backward pass makes such gradients.

    Raises
    ------
    Unsupported
        If a gradient repeats another, or has a layout other than "contiguous".
    """
    if any(gradient.same_as is not None or gradient.layout != "contiguous" for gradient in call.gradients):
        message = "a backward pass gives each gradient of an optimizer once, in Paddle's own layout"
        raise Unsupported(message, "interface")


def refuse_ways(options: Dict[str, Any]) -> None:
    """Refuse the ways of passing parameters that a static program does not have.

    Raises
    ------
    Unsupported
        If the options ask for such a way.
    """
    if "as_generator" in options or "as_single" in options:
        message = "a static program knows its parameters: a user passes none"
        raise Unsupported(message, "interface")


@contextlib.contextmanager
def _refuse_failed_backward(call: Call) -> Iterator[None]:
    """Mark the backward pass that makes the gradients. Refuse the call if the CPU build has no kernels for 16 bits.

    Raises
    ------
    Unsupported
        If Paddle cannot make them.
    """
    try:
        yield
    except Exception as error:
        if not any(gradient.array and gradient.array.dtype.endswith("float16") for gradient in call.gradients):
            raise
        first = next((line for line in read_text(error).splitlines() if line.strip(" -")), type(error).__name__)
        message = "no backward pass makes such gradients: {:.300}".format(first.strip())
        raise Unsupported(message, "kernel") from error


def step_dynamic(make_clip: MakeClip, call: Call, options: Dict[str, Any]) -> Reply:
    """Take one step of SGD in dynamic mode, after a real `backward()`."""
    refuse_repeats_and_layouts(call)
    if any(name in options for name in TRAINING) or any(gradient.group for gradient in call.gradients):
        return _train(make_clip, call, options)
    parameters = _build_layers(build_linear_layers(call.gradients), call.gradients)
    if not parameters.every:
        message = "an optimizer needs at least one parameter"
        raise Unsupported(message, "interface")
    joined = join_by_dtype(call.gradients)
    with _refuse_failed_backward(call):
        rows = _build_row_losses(parameters, call.gradients)
        loss = _build_loss(parameters, joined, [paddle.to_tensor(part.values) for part in joined], rows)
        if loss is not None:
            loss.backward()
    ordered = [parameters.by_number[number] for number in range(len(call.gradients))]
    every: Any = (one for one in parameters.every) if options.pop("as_generator", False) else parameters.every
    every = parameters.every[0] if options.pop("as_single", False) else every
    with framework_call() as seen:
        optimizer = paddle.optimizer.SGD(
            learning_rate=options.pop("learning_rate", 1.0), parameters=every, grad_clip=make_clip(options)
        )
        optimizer.step()
    return Reply(
        gradients=negate_values([parameter.numpy() for parameter in ordered], call.gradients),
        inputs=read_arrays([parameter.grad for parameter in ordered]),
        warnings=seen.warnings,
    )


def _train(make_clip: MakeClip, call: Call, options: Dict[str, Any]) -> Reply:
    """Take several steps of SGD in dynamic mode, with groups of parameters, decay and several backward passes."""
    start, decay, steps, passes = (options.pop(name, default) for name, default in zip(TRAINING, (0.0, None, 1, 1)))
    attribute = paddle.ParamAttr(initializer=paddle.nn.initializer.Constant(start))
    arrays = [gradient.array for gradient in call.gradients if gradient.array is not None]
    parameters = [paddle.create_parameter(list(array.shape), array.dtype, attr=attribute) for array in arrays]
    factors = [paddle.to_tensor(read_values(array)) for array in arrays]
    numbers = sorted({gradient.group for gradient in call.gradients})
    groups = [
        {"params": [one for one, gradient in zip(parameters, call.gradients) if gradient.group == number]}
        for number in numbers
    ]
    with framework_call() as seen:
        optimizer = paddle.optimizer.SGD(
            learning_rate=options.pop("learning_rate", 1.0),
            parameters=parameters if len(groups) == 1 else groups,
            weight_decay=decay,
            grad_clip=make_clip(options),
        )
        for _ in range(steps):
            for _ in range(passes):
                sum((one * factor).sum() for one, factor in zip(parameters, factors)).backward()
            optimizer.step()
            optimizer.clear_grad()
    return Reply(gradients=negate_values([one.numpy() for one in parameters], call.gradients), warnings=seen.warnings)


def step_static(make_clip: MakeClip, call: Call, options: Dict[str, Any]) -> Reply:
    """Take one step of SGD in a static program."""
    refuse_repeats_and_layouts(call)
    refuse_ways(options)
    if any(name in options for name in TRAINING):
        message = "this adapter takes several steps only in dynamic mode"
        raise Unsupported(message)
    layers = build_linear_layers(call.gradients)
    joined = join_by_dtype(call.gradients)
    if any(gradient.rows is not None for gradient in call.gradients):
        message = "this adapter makes no row-sparse gradients in static programs"
        raise Unsupported(message)
    if not joined:
        message = "a static program needs a loss, and no parameter of this call takes part in one"
        raise Unsupported(message, "interface")
    if len(call.gradients) > MOST_IN_A_PROGRAM:
        message = "Paddle prepares a static program in time that grows faster than the square of its gradients; "
        message += "at most {} are tried".format(MOST_IN_A_PROGRAM)
        raise Unsupported(message)
    with _enter_static_program() as (program, startup):
        parameters = _build_layers(layers, call.gradients)
        data = [paddle.static.data(part.dtype, part.values.shape, part.dtype) for part in joined]
        with _refuse_failed_backward(call):
            loss = _build_loss(parameters, joined, data)
        executor = paddle.static.Executor(paddle.CPUPlace())
        with framework_call() as seen:
            optimizer = paddle.optimizer.SGD(
                learning_rate=options.pop("learning_rate", 1.0), grad_clip=make_clip(options)
            )
            optimizer.minimize(loss)
            executor.run(startup)
            executor.run(program, feed={part.dtype: part.values for part in joined})
        scope = paddle.static.global_scope()
        names = [parameters.by_number[number].name for number in range(len(call.gradients))]
        values = [np.array(scope.find_var(name).get_tensor()) for name in names]
    return Reply(gradients=negate_values(values, call.gradients), warnings=seen.warnings)


@contextlib.contextmanager
def _enter_static_program() -> Iterator[Tuple[Any, Any]]:
    """Enter a new static program with new variables, and return to dynamic mode afterwards."""
    program, startup = paddle.static.Program(), paddle.static.Program()
    paddle.enable_static()
    try:
        with (
            paddle.static.scope_guard(paddle.static.Scope()),
            paddle.static.program_guard(program, startup),
            paddle.utils.unique_name.guard(),
        ):
            yield program, startup
    finally:
        paddle.disable_static()
