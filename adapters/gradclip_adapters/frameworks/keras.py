"""Adapt Keras 3 on torch, TensorFlow and JAX: `clipvalue`, `clipnorm` and `global_clipnorm` of its optimizers.

A process has one backend of Keras, and KERAS_BACKEND names it before Keras is imported. So each backend is an adapter
of its own, and only the functions at the end import Keras.

SGD starts at zero with a learning rate of 1, so one step subtracts the clipped gradients. Adam does not subtract them:
its first moments equal them after one step with `beta_1=0`.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any, Callable, Sequence

import numpy as np

from ..arrays import answer_in_threads, ask_among_others, build_tensors, convert_options, refuse_unlisted
from ..contract import About, Array, Call, EntryPoint, Gradient, Reply, Unsupported, framework_call
from .answering import DeclaredAdapter, read_each

DTYPES = ("float16", "bfloat16", "float32", "float64")
COMMON = ("optimizer", "none_grads", "mixed_dtypes", "repeated", "follows", "threshold_kinds")
#: Adam clips by the same code as SGD, so only SGD has compiled entry points.
OPTIMIZERS = ("SGD", "Adam")
#: For each operation, the argument of the optimizers and the option that holds its threshold.
ARGUMENTS = {
    "clip_by_value": ("clipvalue", "max"),
    "clip_by_norm": ("clipnorm", "clip_norm"),
    "clip_by_global_norm": ("global_clipnorm", "clip_norm"),
}
#: A function that takes one step of an optimizer: it gets the optimizer, the gradients and the variables.
Step = Callable[[Any, Sequence[Any], Sequence[Any]], None]


@dataclass(frozen=True)
class Backend:
    """A backend of Keras: the functions that make and read its tensors, and its abilities."""

    name: str
    environment: dict[str, str]
    make: Callable[[Gradient], Any]
    read: Callable[[Any], Array]
    features: tuple[str, ...] = ()
    #: The compiled step, where `Model.fit` takes such steps by default.
    compiled_step: Step | None = None
    #: Whether eager steps have entry points. JAX compiles each function again for each new shape, even in an eager
    #: step, which takes a fifth of a second.
    is_eager: bool = True
    #: A function that takes a step in several replicas. It gets the call, and functions that make an optimizer and the
    #: variables.
    replicated_step: Callable[..., Reply] | None = None


class KerasAdapter(DeclaredAdapter):
    """Adapter for the clips of Keras's optimizers on one backend."""

    def __init__(self, backend: Backend) -> None:
        import keras

        environment = {"floatx": keras.backend.floatx(), **backend.environment}
        super().__init__(About(f"Keras on {backend.name}", keras.__version__, environment), _list_entry_points(backend))
        self._backend = backend

    def call(self, call: Call) -> Reply:
        entry_point = self.entry_points[call.subject]
        if "distributed" in entry_point.features:
            return self._answer_in_replicas(call, entry_point)
        if "compiled" in entry_point.features:
            # Each call compiles a program of its own, which takes a tenth of a second.
            refuse_unlisted(call, entry_point)
        if any(gradient.group or not gradient.need_clip for gradient in call.gradients):
            message = "an optimizer of Keras has one group of variables, and its clip excludes none"
            raise Unsupported(message, "interface")
        if "as_single" in call.options or "as_generator" in call.options:
            message = "`apply` takes a list of gradients"
            raise Unsupported(message, "interface")
        if "compiled" in call.options:
            message = "the adapter takes steps in the mode of the entry point only"
            raise Unsupported(message)
        if "reused" in call.options:
            message = "no gradient tensor is passed a second time here"
            raise Unsupported(message)
        if "threads" in call.options:
            return answer_in_threads(call, self._answer)
        return self._answer(call)

    def _answer_in_replicas(self, call: Call, entry_point: EntryPoint) -> Reply:
        """Take one step of SGD in several replicas."""
        import keras

        refuse_unlisted(call, entry_point, "interface")
        assert self._backend.replicated_step is not None
        argument, threshold = ARGUMENTS[entry_point.operation]
        options, _ = convert_options(call.options, [])
        options[argument] = options.pop(threshold)

        def make_optimizer() -> Any:
            return keras.optimizers.SGD(learning_rate=1.0, **options)

        return self._backend.replicated_step(
            call, make_optimizer, lambda: [_make_variable(gradient, 0.0) for gradient in call.gradients]
        )

    def _answer(self, call: Call) -> Reply:
        gradients = build_tensors(call.gradients, self._backend.make)
        with framework_call(lambda: self._read(gradients)) as seen:
            results = ask_among_others(call, gradients, self._train, self._backend.make)
        return Reply(self._read(results), inputs=self._read(gradients), warnings=seen.warnings)

    def _train(self, call: Call, gradients: Sequence[Any]) -> list[Any]:
        """Take the steps that a call asks for. Return the clipped gradients, as the variables show them."""
        import keras

        entry_point = self.entry_points[call.subject]
        name = entry_point.name.split(".")[2].partition("(")[0]
        argument, threshold = ARGUMENTS[entry_point.operation]
        options, _ = convert_options(call.options, [])
        start = options.pop("start", 0.0)
        steps, passes = options.pop("steps", 1), options.pop("accumulate", 1)
        if passes > 1:
            # Keras divides the sum by the number of passes. So a loss whose sum matters is multiplied by it.
            options["gradient_accumulation_steps"] = passes
            given, gradients = gradients, [gradient * passes for gradient in gradients]
            if any(map(_overflows, given, gradients)):
                message = "the gradient of a loss that is multiplied by the number of passes would overflow"
                raise Unsupported(message)
        options.setdefault("learning_rate", 1.0)
        options[argument] = options.pop(threshold)
        if name == "Adam":
            options["beta_1"] = 0.0
        # Keras raises an error for the options that it does not have.
        optimizer = getattr(keras.optimizers, name)(**options)
        variables = [_make_variable(gradient, start) for gradient in call.gradients]
        step = self._backend.compiled_step if "compiled" in entry_point.features else _step
        assert step is not None
        for _ in range(steps * passes):
            step(optimizer, gradients, variables)
        if name == "SGD":
            # Subtract, because negating would turn a zero into a minus zero.
            shown = [0.0 - variable.value for variable in variables]
        else:
            shown = [variable.value for variable in optimizer.variables if variable.name.endswith("momentum")]
        return [None if gradient is None else value for gradient, value in zip(gradients, shown)]

    def _read(self, tensors: Sequence[Any]) -> tuple[Array | None, ...]:
        return read_each(self._backend.read, tensors)


def _list_entry_points(backend: Backend) -> list[EntryPoint]:
    found = []
    for name in OPTIMIZERS:
        own = ("learning_rate", "training") if name == "SGD" else ()
        for operation, (argument, _) in ARGUMENTS.items():
            entry = f"keras.optimizers.{name}({argument})"
            features = (*COMMON, *own, *backend.features)
            if backend.is_eager:
                found.append(EntryPoint(entry, operation, DTYPES, (*features, "threads")))
            if backend.replicated_step is not None and name == "SGD":
                replicated = ("distributed", "compiled", "optimizer", "none_grads")
                found.append(EntryPoint(entry + "[MirroredStrategy]", operation, DTYPES, replicated))
            if backend.compiled_step is not None and name == "SGD":
                found.append(EntryPoint(entry + "[jit_compile]", operation, ("float32",), (*features, "compiled")))
    return found


def _make_variable(gradient: Gradient, start: float) -> Any:
    import keras

    if gradient.array is None:
        return keras.Variable(np.zeros(1, np.float32))
    shape = gradient.array.shape
    if gradient.rows is not None and gradient.height is not None:
        shape = (gradient.height, *shape[1:])
    return keras.Variable(np.full(shape, start, np.float32), dtype=gradient.array.dtype)


def _overflows(gradient: Any, scaled: Any) -> bool:
    """Return whether a finite element has become infinite."""
    import keras

    return bool(keras.ops.any(keras.ops.isfinite(gradient) != keras.ops.isfinite(scaled)))


def _step(optimizer: Any, gradients: Sequence[Any], variables: Sequence[Any]) -> None:
    optimizer.apply(gradients, variables)


def _start(backend: str) -> None:
    """Import Keras on a backend."""
    os.environ["KERAS_BACKEND"] = backend
    import keras

    if keras.backend.backend() != backend:
        message = f"Keras already runs on {keras.backend.backend()} in this process"
        raise ImportError(message)


def use_torch() -> KerasAdapter:
    """Return the adapter of Keras on torch. Keras compiles nothing there by default."""
    _start("torch")
    import torch

    from .torch import make_tensor, read_array

    def make(gradient: Gradient) -> Any:
        if gradient.array is None or gradient.rows is not None:
            message = "Keras makes no row-sparse gradients on torch"
            raise Unsupported(message, "interface")
        return make_tensor(gradient.array, gradient.layout)

    environment = {"torch": torch.__version__, "threads": str(torch.get_num_threads())}
    return KerasAdapter(Backend("torch", environment, make, read_array, ("strided", "broadcast", "packed")))


def use_tensorflow() -> KerasAdapter:
    """Return the adapter of Keras on TensorFlow, eager and compiled by XLA, as `Model.fit` takes its steps."""
    # Without this variable, TensorFlow reports its build on standard error when it is imported.
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    _start("tensorflow")
    import tensorflow as tf

    from .mirrored import add_devices, make_tensor, read_tensor, step_in_replicas

    # TensorFlow divides the CPU only before it uses it.
    add_devices()

    def make(gradient: Gradient) -> Any:
        _refuse_layout(gradient)
        return make_tensor(gradient)

    def read(tensor: Any) -> Array:
        return read_tensor(tensor.values if isinstance(tensor, tf.IndexedSlices) else tensor)

    def step(optimizer: Any, gradients: Sequence[Any], variables: Sequence[Any]) -> None:
        if not optimizer.built:
            optimizer.build(variables)
        tf.function(optimizer.apply, autograph=False, jit_compile=True)(gradients)

    devices = " ".join(one.name for one in tf.config.list_logical_devices())
    environment = {"tensorflow": tf.__version__, "devices": devices}
    # The threads of TensorFlow treat subnormal numbers as zero: https://github.com/tensorflow/tensorflow/issues/62399
    features = ("sparse", "flushes_subnormals")
    return KerasAdapter(
        Backend("TensorFlow", environment, make, read, features, step, replicated_step=step_in_replicas)
    )


def use_jax() -> KerasAdapter:
    """Return the adapter of Keras on JAX, in `jax.jit`, as `Model.fit` takes its steps."""
    _start("jax")
    import jax

    def make(gradient: Gradient) -> Any:
        _refuse_layout(gradient)
        if gradient.array is None or gradient.rows is not None:
            message = "Keras makes no row-sparse gradients on JAX"
            raise Unsupported(message, "interface")
        return jax.numpy.asarray(gradient.array.numpy())

    def step(optimizer: Any, gradients: Sequence[Any], variables: Sequence[Any]) -> None:
        if not optimizer.built:
            optimizer.build(variables)
        states = [[one.value for one in holder] for holder in (optimizer.variables, variables)]
        values, state = jax.jit(optimizer.stateless_apply)(states[0], gradients, states[1])
        for variable, value in zip((*variables, *optimizer.variables), (*values, *state)):
            variable.assign(value)

    environment = {"jax": jax.__version__, "devices": str(jax.devices())}
    # On the CPU, XLA treats subnormal numbers as zero: https://github.com/jax-ml/jax/issues/26658
    flushes = ("flushes_subnormals",) if jax.default_backend() == "cpu" else ()
    read = lambda one: Array.of(jax.device_get(one))  # noqa: E731
    return KerasAdapter(Backend("JAX", environment, make, read, flushes, step, is_eager=False))


def _refuse_layout(gradient: Gradient) -> None:
    if gradient.layout != "contiguous":
        message = "the backend chooses the layout of its arrays"
        raise Unsupported(message, "interface")
