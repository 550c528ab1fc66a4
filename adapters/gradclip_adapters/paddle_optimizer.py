"""Paddle's clips in an optimizer: one step of SGD on the parameters of real linear layers, dynamic and static.

The parameters start at minus zero and take one step, so that their negation is what the optimizer subtracted, the
sign of a zero included.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from typing import Any, Callable, Dict, Iterator, List, Optional, Sequence, Tuple

import numpy as np
import paddle

from .contract import Array, Call, Gradient, Reply, Unsupported, framework_call
from .linear_layers import EndToEnd, LinearLayer, end_to_end, linear_layers

__all__ = ["arrays_of", "step_dynamic", "step_static", "zero_attribute"]

#: Measured with 3.3.1 on 2 cores: a program of 200 gradients takes 1 s, of 1,000 it takes 15 s.
MOST_IN_A_PROGRAM = 500

#: Makes a clip from the options of a call; raises what Paddle raises.
MakeClip = Callable[[Dict[str, Any]], Any]


def arrays_of(tensors: Sequence[Optional[Any]]) -> Tuple[Optional[Array], ...]:
    """What tensors hold, None staying None."""
    return tuple(None if tensor is None else Array.of(tensor.numpy()) for tensor in tensors)


def zero_attribute(need_clip: bool) -> Any:
    """The attribute of a parameter that starts at minus zero."""
    return paddle.ParamAttr(initializer=paddle.nn.initializer.Constant(-0.0), need_clip=need_clip)


@dataclass(frozen=True)
class Parameters:
    """The parameters of real layers: all of them, and by the number of the gradient that each one belongs to."""

    every: List[Any]
    by_number: Dict[int, Any]
    #: The layers of those gradients that hold some rows only.
    embeddings: Dict[int, Any]


def _build_layers(layers: Sequence[LinearLayer], gradients: Sequence[Gradient]) -> Parameters:
    """Layers of zeros, each parameter excluded by its attribute where its gradient is."""

    def attribute(number: Optional[int]) -> Any:
        return zero_attribute(True if number is None else gradients[number].need_clip)

    parameters = Parameters([], {}, {})
    for layer in layers:
        if layer.weight is not None and gradients[layer.weight].rows is not None:
            with _default_dtype(layer.dtype):
                embedding = paddle.nn.Embedding(
                    layer.in_features, layer.out_features, sparse=True, weight_attr=attribute(layer.weight)
                )
            parameters.every.append(embedding.weight)
            parameters.by_number[layer.weight] = embedding.weight
            parameters.embeddings[layer.weight] = embedding
            continue
        with _default_dtype(layer.dtype):
            linear = paddle.nn.Linear(
                layer.in_features,
                layer.out_features,
                weight_attr=attribute(layer.weight),
                bias_attr=attribute(layer.bias),
            )
        parameters.every.extend(linear.parameters())
        for number, parameter in ((layer.weight, linear.weight), (layer.bias, linear.bias)):
            if number is not None:
                parameters.by_number[number] = parameter
    return parameters


@contextlib.contextmanager
def _default_dtype(dtype: str) -> Iterator[None]:
    before = paddle.get_default_dtype()
    paddle.set_default_dtype(dtype)
    try:
        yield
    finally:
        paddle.set_default_dtype(before)


def _loss_of_rows(parameters: Parameters, gradients: Sequence[Gradient]) -> List[Any]:
    """For each embedding, the sum of the rows that are looked up, times what their gradients shall be."""
    terms = []
    for number, embedding in parameters.embeddings.items():
        array, rows = gradients[number].array, gradients[number].rows
        assert array is not None
        terms.append((embedding(paddle.to_tensor(rows)) * paddle.to_tensor(array.numpy())).sum().astype("float64"))
    return terms


def _loss_of(parameters: Parameters, joined: Sequence[EndToEnd], data: Sequence[Any], rows: Sequence[Any] = ()) -> Any:
    """The sum of `parameter * gradient`, whose derivatives are the gradients bit for bit, NaN and infinities too."""
    terms = list(rows)
    for part, values in zip(joined, data):
        flat = paddle.concat([parameters.by_number[number].flatten() for number in part.numbers])
        # Sums of several dtypes meet in float64; the way back multiplies by an exact 1.
        terms.append((flat * values).sum().astype("float64"))
    return sum(terms) if terms else None


def _negated(values: Sequence[np.ndarray[Any, Any]], gradients: Sequence[Gradient]) -> Tuple[Optional[Array], ...]:
    """Minus the parameters after the step, None where a parameter had no gradient and stayed zero."""
    results: List[Optional[Array]] = []
    for value, gradient in zip(values, gradients):
        left_alone = gradient.array is None and not value.any()
        # Subtracting from -0.0 keeps the sign of a NaN, which negating would flip.
        results.append(None if left_alone else Array.of(np.subtract(-0.0, value, dtype=value.dtype)))
    return tuple(results)


def step_dynamic(make_clip: MakeClip, call: Call, options: Dict[str, Any]) -> Reply:
    """One step of SGD in dynamic mode, after a real `backward()`."""
    parameters = _build_layers(linear_layers(call.gradients), call.gradients)
    if not parameters.every:
        message = "an optimizer needs at least one parameter"
        raise Unsupported(message)
    joined = end_to_end(call.gradients)
    rows = _loss_of_rows(parameters, call.gradients)
    loss = _loss_of(parameters, joined, [paddle.to_tensor(part.values) for part in joined], rows)
    if loss is not None:
        loss.backward()
    ordered = [parameters.by_number[number] for number in range(len(call.gradients))]
    with framework_call() as seen:
        optimizer = paddle.optimizer.SGD(
            learning_rate=options.get("learning_rate", 1.0), parameters=parameters.every, grad_clip=make_clip(options)
        )
        optimizer.step()
    return Reply(
        gradients=_negated([parameter.numpy() for parameter in ordered], call.gradients),
        inputs=arrays_of([parameter.grad for parameter in ordered]),
        warnings=seen.warnings,
    )


def step_static(make_clip: MakeClip, call: Call, options: Dict[str, Any]) -> Reply:
    """One step of SGD in a static program."""
    layers = linear_layers(call.gradients)
    joined = end_to_end(call.gradients)
    if not joined:
        message = "a static program needs a loss, and here no parameter takes part in one"
        raise Unsupported(message)
    if len(call.gradients) > MOST_IN_A_PROGRAM:
        message = "Paddle prepares a static program in time that grows faster than the square of its gradients; "
        message += "at most {} are tried".format(MOST_IN_A_PROGRAM)
        raise Unsupported(message)
    with _static_program() as (program, startup):
        parameters = _build_layers(layers, call.gradients)
        data = [paddle.static.data(part.dtype, part.values.shape, part.dtype) for part in joined]
        loss = _loss_of(parameters, joined, data)
        executor = paddle.static.Executor(paddle.CPUPlace())
        with framework_call() as seen:
            optimizer = paddle.optimizer.SGD(
                learning_rate=options.get("learning_rate", 1.0), grad_clip=make_clip(options)
            )
            optimizer.minimize(loss)
            executor.run(startup)
            executor.run(program, feed={part.dtype: part.values for part in joined})
        scope = paddle.static.global_scope()
        names = [parameters.by_number[number].name for number in range(len(call.gradients))]
        values = [np.array(scope.find_var(name).get_tensor()) for name in names]
    return Reply(gradients=_negated(values, call.gradients), warnings=seen.warnings)


@contextlib.contextmanager
def _static_program() -> Iterator[Tuple[Any, Any]]:
    """A static program of its own, with its own variables, and dynamic mode again afterwards."""
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
