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
from .linear_layers import LinearLayer, linear_layers

__all__ = ["arrays_of", "step_dynamic", "step_static", "zero_attribute"]

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


def _build_layers(layers: Sequence[LinearLayer], gradients: Sequence[Gradient]) -> Parameters:
    """Linear layers of zeros, each parameter excluded by its attribute where its gradient is."""

    def attribute(number: Optional[int]) -> Any:
        return zero_attribute(True if number is None else gradients[number].need_clip)

    parameters = Parameters([], {})
    for layer in layers:
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


def _loss_of(parameters: Parameters, gradients: Dict[int, Any]) -> Any:
    """The sum of `parameter * gradient`, whose derivatives are the gradients bit for bit, NaN and infinities too."""
    terms = [(parameters.by_number[number] * gradient).sum() for number, gradient in gradients.items()]
    if len({str(term.dtype) for term in terms}) > 1:
        # The way back multiplies by an exact 1.
        terms = [term.astype("float64") for term in terms]
    return paddle.add_n(terms) if terms else None


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
    tensors = [
        None if gradient.array is None else paddle.to_tensor(gradient.array.numpy()) for gradient in call.gradients
    ]
    loss = _loss_of(parameters, {number: tensor for number, tensor in enumerate(tensors) if tensor is not None})
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
    arrays = {number: gradient.array for number, gradient in enumerate(call.gradients) if gradient.array is not None}
    if not arrays:
        message = "a static program needs a loss, and here no parameter takes part in one"
        raise Unsupported(message)
    with _static_program() as (program, startup):
        parameters = _build_layers(layers, call.gradients)
        data = {number: paddle.static.data(_feed(number), array.shape, array.dtype) for number, array in arrays.items()}
        loss = _loss_of(parameters, data)
        executor = paddle.static.Executor(paddle.CPUPlace())
        with framework_call() as seen:
            optimizer = paddle.optimizer.SGD(
                learning_rate=options.get("learning_rate", 1.0), grad_clip=make_clip(options)
            )
            optimizer.minimize(loss)
            executor.run(startup)
            executor.run(program, feed={_feed(number): array.numpy() for number, array in arrays.items()})
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


def _feed(number: int) -> str:
    return "gradient_{}".format(number)
