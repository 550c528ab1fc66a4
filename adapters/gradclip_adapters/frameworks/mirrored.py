"""Convert arrays to TensorFlow's tensors and back, and call clips in the replicas of its MirroredStrategy.

The replicas are on logical devices of the CPU. Each has an addend of each gradient. TensorFlow's functions are called
after the addends are summed, as the documentation of `tf.distribute` shows. An optimizer of Keras gets the addends, and
sums them itself.
"""

from __future__ import annotations

import functools
from typing import Any, Callable, Mapping, Sequence

import tensorflow as tf

from ..contract import Array, Call, Gradient, Reply, Unsupported, framework_call
from ..mesh import find_sharded_axis, get_mesh, join_replies

#: The number of replicas.
DEVICES = 2


def make_dense(array: Array) -> tf.Tensor:
    """Return the tensor of an array."""
    # Before TensorFlow 2.11, its bfloat16 in NumPy is not that of ml_dtypes. So the numbers pass as bits.
    if array.dtype == "bfloat16":
        return tf.bitcast(tf.constant(array.bits()), tf.bfloat16)
    return tf.constant(array.numpy())


def make_tensor(gradient: Gradient) -> tf.Tensor | tf.IndexedSlices:
    """Return the tensor of a gradient, or slices of one if the gradient is row-sparse."""
    assert gradient.array is not None
    values = make_dense(gradient.array)
    if gradient.rows is None:
        return values
    shape = (gradient.height, *gradient.array.shape[1:])
    return tf.IndexedSlices(values, tf.constant(gradient.rows, tf.int64), tf.constant(shape, tf.int64))


def read_tensor(tensor: tf.Tensor) -> Array:
    """Return the array of a tensor."""
    if tensor.dtype == tf.bfloat16:
        return Array.of(tf.bitcast(tensor, tf.uint16).numpy(), "bfloat16")
    return Array.of(tensor.numpy())


def add_devices() -> None:
    """Divide the CPU into logical devices, if that has not been done. TensorFlow must not have used it before."""
    (cpu,) = tf.config.list_physical_devices("CPU")
    if not tf.config.get_logical_device_configuration(cpu):
        tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * DEVICES)


@functools.lru_cache(maxsize=None)
def _make_strategy() -> Any:
    return tf.distribute.MirroredStrategy([f"CPU:{number}" for number in range(DEVICES)])


def _make_addends(call: Call) -> list[Any | None]:
    """Return the addend of each gradient that every replica gets."""
    if any(find_sharded_axis(gradient) is not None for gradient in call.gradients):
        message = "MirroredStrategy gives each replica a copy of each gradient"
        raise Unsupported(message, "interface")
    if get_mesh(call).size != DEVICES:
        message = f"after a step in {DEVICES} replicas, TensorFlow takes none in another number of them"
        raise Unsupported(message)
    arrays = [gradient.array for gradient in call.gradients]
    return [None if one is None else make_dense(one) / DEVICES for one in arrays]


def clip_in_replicas(clip: Callable[..., tuple[Sequence[Any], Any]], call: Call, options: Mapping[str, Any]) -> Reply:
    """Return the answer of a clip that each replica calls on the summed gradients."""
    strategy, addends = _make_strategy(), _make_addends(call)

    def run() -> Any:
        context = tf.distribute.get_replica_context()
        summed = [
            None if one is None else context.all_reduce(tf.distribute.ReduceOp.SUM, one) for one in _copy(addends)
        ]
        return clip(summed, options)

    with framework_call() as seen:
        clipped, norm = strategy.run(tf.function(run, autograph=False))
    columns = [[None] * strategy.num_replicas_in_sync if one is None else _list_copies(one) for one in clipped]
    norms = [None] * strategy.num_replicas_in_sync if norm is None else _list_copies(norm)
    rows = zip(*columns) if columns else [()] * len(norms)
    replies = [Reply(tuple(row), total, warnings=seen.warnings) for row, total in zip(rows, norms)]
    return join_replies(call, replies)


def step_in_replicas(
    call: Call, make_optimizer: Callable[[], Any], make_variables: Callable[[], Sequence[Any]]
) -> Reply:
    """Return the negated variables after a step from zero that an optimizer takes in all replicas."""
    strategy, addends = _make_strategy(), _make_addends(call)
    with framework_call() as seen:
        with strategy.scope():
            variables, optimizer = make_variables(), make_optimizer()
            optimizer.build(variables)

        def step() -> None:
            optimizer.apply_gradients(list(zip(_copy(addends), variables)))

        strategy.run(tf.function(step, autograph=False))
    replies = []
    for rank in range(strategy.num_replicas_in_sync):
        values = [variable.value.values[rank] for variable in variables]
        shown = [None if one is None else read_tensor(0.0 - value) for one, value in zip(addends, values)]
        replies.append(Reply(tuple(shown), warnings=seen.warnings))
    return join_replies(call, replies)


def _copy(addends: Sequence[Any | None]) -> list[Any | None]:
    """Return a copy of each addend in a replica. MirroredStrategy does not add a tensor that all replicas share."""
    return [None if one is None else tf.identity(one) for one in addends]


def _list_copies(value: Any) -> list[Array]:
    return [read_tensor(one) for one in value.values]
