"""Adapt TensorFlow: `tf.clip_by_value`, `tf.clip_by_norm`, `tf.clip_by_global_norm` and `clip_by_average_norm`.

All of them are called directly and in `tf.function`, and three of them under XLA. In TensorFlow 1, they are called
directly and in sessions. All but `tf.clip_by_global_norm` take one tensor, so the adapter calls them on each gradient
in turn, as their documentation shows. They cannot be called on an empty list or on a gradient that is None.
"""

from __future__ import annotations

import inspect
import os
from typing import Any, Callable, Generator, Mapping, Optional, Sequence, Union

# Without this variable, TensorFlow reports its build on standard error when it is imported.
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import tensorflow as tf

from ..arrays import answer_in_threads, build_tensors, convert_options, read_axes, refuse_other_dtypes
from ..contract import (
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
from ..operations import OPERATIONS
from .answering import Clip, ListAdapter, apply_to_all, apply_to_each
from .mirrored import add_devices, clip_in_replicas, make_dense, make_tensor, read_tensor

#: TensorFlow 1 builds graphs, and sessions run them, unless it is told otherwise before its first operation.
USES_SESSIONS = not tf.executing_eagerly()
if USES_SESSIONS:
    tf.compat.v1.enable_eager_execution()
else:
    # TensorFlow divides the CPU only before it uses it.
    add_devices()

DTYPES = ("float16", "bfloat16", "float32", "float64")
ONE_BY_ONE = ("functional", "mixed_dtypes", "repeated", "single", "sparse", "differentiable", "tensor_threshold")
#: "A tuple or list of mixed `Tensors`, `IndexedSlices`, or None."
TOGETHER = (
    "functional",
    "mixed_dtypes",
    "none_grads",
    "repeated",
    "returns_norm",
    "sparse",
    "differentiable",
    "tensor_threshold",
)

#: One graph serves several shapes. Before TensorFlow 2.9, the option has another name.
_OPTIONS = inspect.signature(tf.function).parameters
REUSE_GRAPHS = {"reduce_retracing" if "reduce_retracing" in _OPTIONS else "experimental_relax_shapes": True}
#: The functions with entry points under XLA. Before TensorFlow 2.5, XLA is an experiment.
UNDER_XLA = ("tf.clip_by_value", "tf.clip_by_norm", "tf.clip_by_global_norm") if "jit_compile" in _OPTIONS else ()
#: For each mode that makes a program for almost every call, the most gradients of a call, and the reason.
LONGEST = {
    # 70 ms of a processor for one tensor, 190 ms for 4 and 530 ms for 16. Tracing takes a tenth of it.
    "xla": (4, "XLA compiles for each combination of shapes and threshold"),
    # With 1,000 tensors, the graph has 20,000 operations.
    "Session": (100, "each call builds a graph and starts a session"),
}

Tensor = Optional[Union[tf.Tensor, tf.IndexedSlices]]


class TensorFlowAdapter(ListAdapter):
    """Adapter for the clip functions of TensorFlow 2."""

    def __init__(self, device: str = "cpu") -> None:
        # Each new threshold makes a new graph, and TensorFlow would warn that there are many graphs.
        tf.get_logger().setLevel("ERROR")
        environment = {
            "device": _choose_device(device),
            "devices": " ".join(device.name for device in _get_config().list_logical_devices()),
            "TF_ENABLE_ONEDNN_OPTS": os.environ.get("TF_ENABLE_ONEDNN_OPTS", "unset"),
        }
        # The replicas are logical devices of the CPU.
        super().__init__(
            About("TensorFlow", tf.__version__, environment),
            [entry for entry in _list_entry_points() if device == "cpu" or "distributed" not in entry.features],
        )

    def call(self, call: Call) -> Reply:
        entry = self.entry_points[call.subject]
        if "distributed" in entry.features:
            options, flags = convert_options(call.options, [gradient.need_clip for gradient in call.gradients])
            return clip_in_replicas(entry.clip, call, options if all(flags) else {**options, "need_clip": flags})
        _refuse_long_calls(call, entry)
        if any(gradient.layout != "contiguous" for gradient in call.gradients):
            message = "tensors of TensorFlow have no strides: TensorFlow chooses the layout"
            raise Unsupported(message, "interface")
        if "reused" in call.options:
            message = "tensors of TensorFlow are immutable: no call can reuse the tensors of an earlier one"
            raise Unsupported(message, "interface")
        if USES_SESSIONS and "compiled" in call.options:
            message = (
                "the adapter compiles nothing in eager mode of TensorFlow 1: sessions have entry points of their own"
            )
            raise Unsupported(message)
        if any(gradient.cotangent is not None for gradient in call.gradients):
            return answer_in_threads(call, self.call) if "threads" in call.options else _pull_back(entry, call)
        return super().call(call)

    def make_tensor(self, gradient: Gradient) -> Any:
        return make_tensor(gradient)

    def read_array(self, tensor: Any) -> Array:
        """Return the elements that were passed: only the stored rows of a row-sparse gradient."""
        return read_tensor(tensor.values if isinstance(tensor, tf.IndexedSlices) else tensor)

    def read_result(self, tensor: Any) -> Array:
        """Return all elements, also those of rows that are not stored."""
        return _read_dense(tensor)

    def make_scalar(self, value: float, dtype: str) -> Any:
        return tf.constant(value, dtype)


def _get_config() -> Any:
    """Return the module that lists devices. In TensorFlow 1 and 2.0, its functions are an experiment."""
    return tf.config if hasattr(tf.config, "list_logical_devices") else tf.config.experimental


def _choose_device(name: str) -> str:
    """Choose the first device of a kind, and return its name, with the name of the card.

    TensorFlow prefers a GPU, so the GPUs are hidden if the CPU is chosen.
    """
    config = _get_config()
    cards = config.list_physical_devices("GPU") if name in ("cpu", "cuda") else []
    if name == "cpu":
        if cards:
            config.set_visible_devices([], "GPU")
        return name
    if not cards:
        message = f"TensorFlow {tf.__version__} finds no device {name!r} on this machine."
        raise MissingDevice(message)
    return f"{name} ({config.experimental.get_device_details(cards[0]).get('device_name', 'unknown')})"


def _refuse_long_calls(call: Call, entry: EntryPoint) -> None:
    mode = entry.name.rpartition("[")[2].rstrip("]")
    if mode == "xla":
        refuse_other_dtypes(call, entry)
    most, reason = LONGEST.get(mode, (len(call.gradients), ""))
    if len(call.gradients) > most:
        message = f"{reason}: the adapter passes at most {most} gradients"
        raise Unsupported(message)


def _pull_back(entry: EntryPoint, call: Call) -> Reply:
    """Return the derivatives through the clip, from a gradient tape."""
    tensors: list[Tensor] = build_tensors(call.gradients, make_tensor)
    cotangents = [gradient.cotangent and make_dense(gradient.cotangent) for gradient in call.gradients]
    if "[Session]" in entry.name:
        message = "the adapter asks for derivatives only where a gradient tape records them"
        raise Unsupported(message)
    with framework_call() as seen, tf.GradientTape() as tape:
        tape.watch(tensors)
        clipped, _ = entry.clip(tensors, call.options)
        with tape.stop_recording():
            found = tape.gradient(clipped, tensors, cotangents, unconnected_gradients="zero")
    return Reply(tuple(_read_dense(derivative) for derivative in found), warnings=seen.warnings)


def _read_dense(tensor: Tensor) -> Array:
    return read_tensor(tf.convert_to_tensor(tensor))


# Options for which TensorFlow has no parameter are passed as `more`: only TensorFlow's error shows that it has none.


def _clip_by_value(tensor: Tensor, *, max: float, **more: Any) -> Tensor:
    if "min" in more:
        more["clip_value_min"] = more.pop("min")
    return tf.clip_by_value(tensor, clip_value_max=max, **more)


def _clip_by_norm(tensor: Tensor, *, clip_norm: float, **more: Any) -> Tensor:
    if "axes" in more:
        more["axes"] = read_axes(more)
    return tf.clip_by_norm(tensor, clip_norm, **more)


def _clip_by_average_norm(tensor: Tensor, *, clip_norm: float, **more: Any) -> Tensor:
    return tf.compat.v1.clip_by_average_norm(tensor, clip_norm, **more)


def _clip_by_global_norm(
    tensors: Sequence[Tensor], *, clip_norm: float, **more: Any
) -> tuple[Sequence[Tensor], tf.Tensor]:
    clipped, norm = tf.clip_by_global_norm(tensors, clip_norm, **more)
    return clipped, norm


def _clip_with_given_norm(
    tensors: Sequence[Tensor], *, clip_norm: float, **more: Any
) -> tuple[Sequence[Tensor], tf.Tensor]:
    clipped, norm = tf.clip_by_global_norm(tensors, clip_norm, use_norm=tf.linalg.global_norm(tensors), **more)
    return clipped, norm


#: The number of graphs after which a compiled function is made anew.
MOST_GRAPHS = 32


class _Compiled:
    """A function inside `tf.function`.

    TensorFlow makes a graph for each combination of shapes, and at each call it searches all graphs. So lists of many
    shapes took most of a run. `reduce_retracing` lets one graph take several shapes of a rank, and after many graphs a
    new function takes the place of the old one. Each set of options has a function of its own: with `reduce_retracing`,
    TensorFlow raises IndexError if one call passes an argument that an earlier call left out.
    """

    def __init__(self, function: Callable[..., Any], **options: bool) -> None:
        self._function = function
        self._options = {**REUSE_GRAPHS, **options}
        self._compiled: dict[tuple[str, ...], Any] = {}

    def __call__(self, *args: Any, **options: Any) -> Any:
        names = tuple(sorted(options))
        compiled = self._compiled.get(names)
        if compiled is None or compiled.experimental_get_tracing_count() >= MOST_GRAPHS:
            compiled = self._compiled[names] = self._compile()
        return compiled(*args, **options)

    def _compile(self) -> Any:
        # Autograph rewrites Python control flow, and these functions have none.
        return tf.function(self._function, autograph=False, **self._options)


def _run_in_session(clip: Clip) -> Clip:
    """Return a clip that builds a graph for placeholders, feeds the tensors to a session, and reads its results."""

    def run(tensors: Any, options: Mapping[str, Any]) -> tuple[Sequence[Tensor], tf.Tensor | None]:
        with tf.Graph().as_default(), tf.compat.v1.Session() as session:
            make = _Placeholders()
            clipped, norm = clip(make(tensors), {name: make(value) for name, value in options.items()})
            wanted = [None if one is None else tf.convert_to_tensor(one) for one in (*clipped, norm)]
            found = iter(session.run([one for one in wanted if one is not None], make.fed))
        *results, total = [None if one is None else tf.constant(next(found)) for one in wanted]
        return results, total

    return run


class _Placeholders:
    """A function that replaces tensors by placeholders of the current graph."""

    def __init__(self) -> None:
        #: The array that each placeholder gets.
        self.fed: dict[tf.Tensor, Any] = {}
        self._made: dict[int, Tensor] = {}

    def __call__(self, value: Any) -> Any:
        if isinstance(value, list):
            return [self(one) for one in value]
        if isinstance(value, Generator):
            return (self(one) for one in value)
        if not isinstance(value, (tf.Tensor, tf.IndexedSlices)):
            return value
        # A tensor that a list holds twice has one placeholder.
        if id(value) not in self._made:
            self._made[id(value)] = self._make(value)
        return self._made[id(value)]

    def _make(self, tensor: Any) -> Tensor:
        if isinstance(tensor, tf.IndexedSlices):
            return tf.IndexedSlices(self(tensor.values), tensor.indices.numpy(), tensor.dense_shape.numpy())
        placeholder = tf.compat.v1.placeholder(tensor.dtype, tensor.shape)
        self.fed[placeholder] = tensor.numpy()
        return placeholder


def _list_entry_points() -> list[EntryPoint]:
    by_use_norm, by_loss = "tf.clip_by_global_norm(use_norm=tf.linalg.global_norm)", _list_dtypes_of_loss()
    bounds, dense = (*ONE_BY_ONE, "min_max", "requires_min"), tuple(name for name in ONE_BY_ONE if name != "sparse")
    average_norm, global_norm = "clip_by_average_norm", "clip_by_global_norm"
    found = [
        *_make_entries("tf.clip_by_value", "clip_by_value", DTYPES, bounds, _clip_by_value),
        *_make_entries("tf.clip_by_norm", "clip_by_norm", DTYPES, (*ONE_BY_ONE, "axes"), _clip_by_norm),
        *_make_entries("tf.compat.v1.clip_by_average_norm", average_norm, by_loss, dense, _clip_by_average_norm),
        *_make_entries("tf.clip_by_global_norm", global_norm, by_loss, TOGETHER, _clip_by_global_norm),
        *_make_entries(by_use_norm, global_norm, by_loss, TOGETHER, _clip_with_given_norm),
    ]
    if USES_SESSIONS:
        return found
    together = ("none_grads", "returns_norm")
    return [
        *found,
        _make_replicated("tf.clip_by_value", "clip_by_value", DTYPES, ("min_max", "requires_min"), _clip_by_value),
        _make_replicated("tf.clip_by_norm", "clip_by_norm", DTYPES, (), _clip_by_norm),
        _make_replicated("tf.clip_by_global_norm", global_norm, by_loss, together, _clip_by_global_norm),
    ]


def _list_dtypes_of_loss() -> tuple[str, ...]:
    """Return the dtypes for which this build has `L2Loss`. On a CPU, TensorFlow 2.4 has none for bfloat16."""
    try:
        tf.nn.l2_loss(tf.zeros(1, tf.bfloat16))
    except tf.errors.NotFoundError:
        return tuple(dtype for dtype in DTYPES if dtype != "bfloat16")
    return DTYPES


def _make_entries(
    name: str, operation: str, dtypes: tuple[str, ...], features: tuple[str, ...], function: Callable[..., Any]
) -> list[EntryPoint]:
    one_by_one = not OPERATIONS[operation].is_global
    over = apply_to_each if one_by_one else apply_to_all

    def make(mode: str, dtypes: tuple[str, ...], clip: Clip, compiled: Clip, *more: str) -> EntryPoint:
        able = tuple(name for name in features if mode != "Session" or name != "differentiable")
        return EntryPoint(
            f"{name}[{mode}]",
            operation,
            dtypes,
            (*able, "threads", *more),
            clip=clip,
            compiled=compiled,
            one_by_one=one_by_one,
        )

    eager = over(function)
    if USES_SESSIONS:
        run = _run_in_session(eager)
        # A session computes `1 / norm` by `Reciprocal`, which has no kernel for bfloat16 on a CPU.
        kept = dtypes if one_by_one else tuple(dtype for dtype in dtypes if dtype != "bfloat16")
        return [make("eager", dtypes, eager, run), make("Session", kept, run, run, "compiled")]
    graph = over(_Compiled(function))
    found = [make("eager", dtypes, eager, graph, "compiles"), make("tf.function", dtypes, graph, graph, "compiled")]
    if name in UNDER_XLA:
        xla = over(_Compiled(function, jit_compile=True))
        found.append(make("xla", ("float32",), xla, xla, "compiled"))
    return found


def _make_replicated(
    name: str, operation: str, dtypes: tuple[str, ...], features: tuple[str, ...], function: Callable[..., Any]
) -> EntryPoint:
    clip = (apply_to_all if OPERATIONS[operation].is_global else apply_to_each)(function)
    features = ("distributed", "functional", *features)
    return EntryPoint(name + "[MirroredStrategy]", operation, dtypes, features, clip=clip)
