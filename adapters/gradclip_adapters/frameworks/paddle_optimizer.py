"""Run Paddle's clips in an optimizer: one step after a real backward pass, in dynamic and in static mode.

The parameters start at minus zero and take one step of SGD. The negated parameters then equal what the optimizer
subtracted, including the sign of a zero. Of a step of Adam, the first moments are read.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from typing import Any, Callable, Iterator, Mapping, Sequence

import numpy as np
import paddle

from ..arrays import TRAINING, find_dtype
from ..contract import Array, Call, Gradient, Reply, Unsupported, framework_call, read_text
from ..joined_gradients import JoinedGradients, join_by_dtype, negate_values, read_values

#: Measured with 3.3.1 on 2 cores: a program of 200 gradients takes 1 s, one of 1,000 takes 15 s.
MOST_IN_A_PROGRAM = 500

#: A clip class of Paddle. An option that the class does not know raises its TypeError.
MakeClip = Callable[..., Any]


def read_arrays(tensors: Sequence[Any | None]) -> tuple[Array | None, ...]:
    """Return the elements of each tensor, and None for None."""
    return tuple(None if tensor is None else Array.of(tensor.numpy()) for tensor in tensors)


def _make_zero_attribute(need_clip: bool) -> Any:
    """Return the attribute of a parameter that starts at minus zero."""
    return paddle.ParamAttr(initializer=paddle.nn.initializer.Constant(-0.0), need_clip=need_clip)


def make_parameter(array: Array | None, need_clip: bool = True, dtype: str = "float32") -> Any:
    """Return a parameter of minus zeros for a gradient. One without a gradient has the given dtype."""
    if paddle.__version__.startswith("2.") and array is not None and 0 in array.shape:
        message = "Paddle 2 makes no parameters without elements"
        raise Unsupported(message, "interface")
    shape, dtype = ((1,), dtype) if array is None else (array.shape, array.dtype)
    return paddle.create_parameter(list(shape), dtype, attr=_make_zero_attribute(need_clip))


@dataclass(frozen=True)
class Parameters:
    """The parameters of a call, each with the number of its gradient."""

    every: list[Any]
    #: The layers of row-sparse gradients.
    embeddings: dict[int, Any]


def _make_parameters(gradients: Sequence[Gradient]) -> Parameters:
    """Make parameters of minus zeros, and exclude by attribute each one whose gradient is excluded."""
    embeddings = {number: _make_embedding(one) for number, one in enumerate(gradients) if one.rows is not None}
    every, dtype = [], find_dtype(gradients)
    for number, gradient in enumerate(gradients):
        # Adam makes its learning rate in the dtype of the first parameter.
        dtype = dtype if gradient.array is None else gradient.array.dtype
        if number in embeddings:
            every.append(embeddings[number].weight)
        else:
            every.append(make_parameter(gradient.array, gradient.need_clip, dtype))
    return Parameters(every, embeddings)


@contextlib.contextmanager
def _use_default_dtype(dtype: str) -> Iterator[None]:
    before = paddle.get_default_dtype()
    paddle.set_default_dtype(dtype)
    try:
        yield
    finally:
        paddle.set_default_dtype(before)


def _make_embedding(gradient: Gradient) -> Any:
    assert gradient.array is not None
    with _use_default_dtype(gradient.array.dtype):
        attribute = _make_zero_attribute(gradient.need_clip)
        return paddle.nn.Embedding(gradient.height, gradient.array.shape[1], sparse=True, weight_attr=attribute)


def make_row_sparse_parameter(gradient: Gradient) -> Any:
    """Return the weight of an embedding whose backward pass has made a row-sparse gradient."""
    embedding = _make_embedding(gradient)
    (term,) = _build_row_losses({0: embedding}, [gradient])
    term.backward()
    return embedding.weight


def _build_row_losses(embeddings: Mapping[int, Any], gradients: Sequence[Gradient]) -> list[Any]:
    """Return a loss for each embedding: the sum of the products of the looked-up rows and the wanted gradients."""
    terms = []
    for number, embedding in embeddings.items():
        array, rows = gradients[number].array, gradients[number].rows
        assert array is not None
        terms.append((embedding(paddle.to_tensor(rows)) * paddle.to_tensor(read_values(array))).sum().astype("float64"))
    return terms


def _build_loss(
    parameters: Sequence[Any], joined: Sequence[JoinedGradients], data: Sequence[Any], rows: Sequence[Any] = ()
) -> Any:
    """Return the sum of `parameter * gradient`.

    Its derivatives are the gradients bit for bit, including NaN and infinities.
    """
    terms = list(rows)
    for part, values in zip(joined, data):
        flat = paddle.concat([parameters[number].flatten() for number in part.numbers])
        # Sums of several dtypes are added in float64. The backward pass multiplies by an exact 1.
        terms.append((flat * values).sum().astype("float64"))
    return sum(terms) if terms else None


def _refuse_repeats_and_layouts(call: Call) -> None:
    """Refuse repeated gradients and layouts, because no backward pass makes such gradients."""
    if any(gradient.same_as is not None or gradient.layout != "contiguous" for gradient in call.gradients):
        message = "a backward pass gives each gradient of an optimizer once, in Paddle's own layout"
        raise Unsupported(message, "interface")


def _refuse_ways(options: dict[str, Any]) -> None:
    """Refuse the ways of passing parameters that a static program does not have."""
    if "as_generator" in options or "as_single" in options:
        message = "a static program knows its parameters: a user passes none"
        raise Unsupported(message, "interface")


@contextlib.contextmanager
def _refuse_failed_backward(call: Call) -> Iterator[None]:
    """Mark the backward pass that makes the gradients. Refuse the call if the CPU build has no kernels for 16 bits."""
    try:
        yield
    except Exception as error:
        if not any(gradient.array and gradient.array.dtype.endswith("float16") for gradient in call.gradients):
            raise
        first = next((line for line in read_text(error).splitlines() if line.strip(" -")), type(error).__name__)
        message = f"no backward pass makes such gradients: {first.strip():.300}"
        raise Unsupported(message, "kernel") from error


@dataclass(frozen=True)
class Way:
    """A way to take a step in dynamic mode, and to read the clipped gradients after it."""

    #: The name of a class in `paddle.optimizer`.
    optimizer: str = "SGD"
    #: Whether `minimize` takes the step, after the backward pass that its documentation asks for.
    minimizes: bool = False
    #: Whether each group of parameters has a clip of its own.
    clips_groups: bool = False

    def refuse(self, options: dict[str, Any]) -> None:
        """Refuse options that Adam's first moment cannot show."""
        if self.optimizer != "SGD" and any(name in options for name in (*TRAINING, "learning_rate")):
            message = "the first moment after one step shows neither the learning rate nor other steps"
            raise Unsupported(message)

    def make_optimizer(self, groups: Sequence[Any], make_clip: MakeClip, options: dict[str, Any], decay: Any) -> Any:
        """Return the optimizer of these groups of parameters."""
        rate = options.pop("learning_rate", 1.0)
        # The documentation of Adam: moment_1_out = beta_1 * moment_1 + (1 - beta_1) * grad. The moment starts at zero,
        # and beta_1 may be 0. After one step, the moment is then the gradient itself, without any rounding.
        more: dict[str, Any] = {"weight_decay": decay} if self.optimizer == "SGD" else {"beta1": 0.0}
        parameters: Any = groups[0] if len(groups) == 1 else [{"params": group} for group in groups]
        if self.clips_groups:
            parameters = [{"params": group, "grad_clip": make_clip(**options)} for group in groups]
        else:
            more["grad_clip"] = make_clip(**options)
        return getattr(paddle.optimizer, self.optimizer)(learning_rate=rate, parameters=parameters, **more)

    def update(self, optimizer: Any, loss: Any) -> None:
        """Take the step after the backward pass of the loss."""
        if self.minimizes:
            optimizer.minimize(loss)
        else:
            optimizer.step()

    def read(
        self, optimizer: Any, parameters: Sequence[Any], gradients: Sequence[Gradient]
    ) -> tuple[Array | None, ...]:
        """Return the negated parameters after a step of SGD, or the first moments of Adam."""
        if self.optimizer == "SGD":
            return negate_values([parameter.numpy() for parameter in parameters], gradients)
        state = optimizer.state_dict()
        return read_arrays([state.get(f"{parameter.name}_moment1_0") for parameter in parameters])


STEP_OF_SGD = Way()


def step_dynamic(make_clip: MakeClip, call: Call, options: dict[str, Any], way: Way = STEP_OF_SGD) -> Reply:
    """Take one step in dynamic mode, after a real `backward()`."""
    _refuse_repeats_and_layouts(call)
    way.refuse(options)
    if any(name in options for name in TRAINING) or any(gradient.group for gradient in call.gradients):
        return _train(make_clip, call, options, way)
    parameters = _make_parameters(call.gradients)
    if not parameters.every:
        message = "an optimizer needs at least one parameter"
        raise Unsupported(message, "interface")
    joined = join_by_dtype(call.gradients)
    with _refuse_failed_backward(call):
        rows = _build_row_losses(parameters.embeddings, call.gradients)
        loss = _build_loss(parameters.every, joined, [paddle.to_tensor(part.values) for part in joined], rows)
        if loss is not None:
            loss.backward()
    if loss is None and way.minimizes:
        message = "minimize needs a loss, and no parameter of this call takes part in one"
        raise Unsupported(message, "interface")
    every: Any = (one for one in parameters.every) if options.pop("as_generator", False) else parameters.every
    every = parameters.every[0] if options.pop("as_single", False) else every
    with framework_call() as seen:
        optimizer = way.make_optimizer([every], make_clip, options, None)
        way.update(optimizer, loss)
    return Reply(
        gradients=way.read(optimizer, parameters.every, call.gradients),
        inputs=read_arrays([parameter.grad for parameter in parameters.every]),
        warnings=seen.warnings,
    )


def _train(make_clip: MakeClip, call: Call, options: dict[str, Any], way: Way) -> Reply:
    """Take several steps in dynamic mode, with groups of parameters, decay and several backward passes."""
    start, decay, steps, passes = (options.pop(name, default) for name, default in zip(TRAINING, (0.0, None, 1, 1)))
    attribute = paddle.ParamAttr(initializer=paddle.nn.initializer.Constant(start))
    arrays = [gradient.array for gradient in call.gradients if gradient.array is not None]
    parameters = [paddle.create_parameter(list(array.shape), array.dtype, attr=attribute) for array in arrays]
    factors = [paddle.to_tensor(read_values(array)) for array in arrays]
    numbers = sorted({gradient.group for gradient in call.gradients})
    groups = [
        [one for one, gradient in zip(parameters, call.gradients) if gradient.group == number] for number in numbers
    ]
    with framework_call() as seen:
        optimizer = way.make_optimizer(groups, make_clip, options, decay)
        for _ in range(steps):
            for _ in range(passes):
                loss = sum((one * factor).sum() for one, factor in zip(parameters, factors))
                loss.backward()
            way.update(optimizer, loss)
            optimizer.clear_grad()
    return Reply(gradients=way.read(optimizer, parameters, call.gradients), warnings=seen.warnings)


def step_static(make_clip: MakeClip, call: Call, options: dict[str, Any], clipped_by: str = "grad_clip") -> Reply:
    """Take one step of SGD in a static program.

    `clipped_by` names what clips: the argument "grad_clip" of the optimizer, "set_gradient_clip", or "_set_error_clip"
    of each parameter's copy, through which its gradient flows.
    """
    _refuse_repeats_and_layouts(call)
    _refuse_ways(options)
    if any(name in options for name in TRAINING):
        message = "this adapter takes several steps only in dynamic mode"
        raise Unsupported(message)
    joined = join_by_dtype(call.gradients)
    if any(gradient.rows is not None for gradient in call.gradients):
        message = "this adapter makes no row-sparse gradients in static programs"
        raise Unsupported(message)
    if not joined:
        message = "a static program needs a loss, and no parameter of this call takes part in one"
        raise Unsupported(message, "interface")
    if len(call.gradients) > MOST_IN_A_PROGRAM:
        message = "Paddle prepares a static program in time that grows faster than the square of its gradients; "
        message += f"at most {MOST_IN_A_PROGRAM} are tried"
        raise Unsupported(message)
    with _enter_static_program() as (program, startup):
        parameters = _make_parameters(call.gradients).every
        data = [paddle.static.data(part.dtype, part.values.shape, part.dtype) for part in joined]
        rate, in_optimizer = options.pop("learning_rate", 1.0), clipped_by == "grad_clip"
        by_error = clipped_by == "_set_error_clip"
        copies = _clip_errors(parameters, call.gradients, make_clip, options) if by_error else parameters
        with _refuse_failed_backward(call):
            loss = _build_loss(copies, joined, data)
        executor = paddle.static.Executor()
        with framework_call() as seen:
            if clipped_by == "set_gradient_clip":
                included = [one for one, gradient in zip(parameters, call.gradients) if gradient.need_clip]
                everything = len(included) == len(call.gradients)
                paddle.nn.clip.set_gradient_clip(make_clip(**options), None if everything else included)
            optimizer = paddle.optimizer.SGD(rate, grad_clip=make_clip(**options) if in_optimizer else None)
            optimizer.minimize(loss)
            executor.run(startup)
            executor.run(program, feed={part.dtype: part.values for part in joined})
        scope = paddle.static.global_scope()
        values = [np.array(scope.find_var(parameter.name).get_tensor()) for parameter in parameters]
    return Reply(gradients=negate_values(values, call.gradients), warnings=seen.warnings)


def _clip_errors(
    parameters: Sequence[Any], gradients: Sequence[Gradient], make_clip: MakeClip, options: dict[str, Any]
) -> list[Any]:
    """Return copies of the parameters, as a network's layers would make. Set a clip of the error of each copy."""
    copies = []
    with framework_call():
        for parameter, gradient in zip(parameters, gradients):
            copies.append(paddle.assign(parameter))
            if gradient.need_clip:
                copies[-1]._set_error_clip(make_clip(**options))
    return copies


@contextlib.contextmanager
def _enter_static_program() -> Iterator[tuple[Any, Any]]:
    """Enter a new static program with new variables, and return to dynamic mode afterwards."""
    program, startup = paddle.static.Program(), paddle.static.Program()
    paddle.enable_static()
    try:
        with paddle.static.scope_guard(paddle.static.Scope()), paddle.static.program_guard(program, startup):
            with paddle.utils.unique_name.guard():
                yield program, startup
    finally:
        paddle.disable_static()
