"""Adapt Optax on JAX: four transformations, and `optax.per_example_global_norm_clip`, eager and in `jax.jit`.

The transformations are `optax.clip`, `clip_by_global_norm`, `clip_by_block_rms` and `adaptive_grad_clip`, called
through `update`. The first two are called on several devices, too.
"""

from __future__ import annotations

import os
from dataclasses import replace
from typing import Any, Dict, List, Optional, Sequence, Tuple

# JAX reads this variable when it first looks for devices. The clips on several devices need up to four.
os.environ["XLA_FLAGS"] = os.environ.get("XLA_FLAGS", "") + " --xla_force_host_platform_device_count=4"

import jax
import numpy as np
import optax

from ..arrays import answer_in_threads, build_parameters, build_tensors, convert_options, make_following_call
from ..contract import About, Adapter, Array, Call, Gradient, Reply, Subject, Unsupported, framework_call
from ..processes import compare_copies, get_world

__all__ = ["OptaxAdapter"]

COMMON = (
    "functional",
    "excludes",
    "none_grads",
    "mixed_dtypes",
    "repeated",
    "single",
    "threads",
    "follows",
    "flag_kinds",
    "threshold_kinds",
    "tensor_threshold",
    "differentiable",
)
#: On the CPU, XLA treats subnormal numbers as zero: https://github.com/jax-ml/jax/issues/26658
FLUSHES = ("flushes_subnormals",) if jax.default_backend() == "cpu" else ()
#: Older versions of JAX have the context manager among the experiments.
ENABLE_X64 = jax.enable_x64 if hasattr(jax, "enable_x64") else jax.experimental.enable_x64
#: The modes of each function, and the feature of each mode.
MODES = {"[eager]": "compiles", "[jit]": "compiled"}
#: The abilities of a call on several devices.
SHARDED = ("distributed", "functional", "excludes", "none_grads")
SHARDED_OPERATIONS = ("clip_by_value", "clip_by_global_norm")
#: For each operation, the function and the option that holds its threshold.
FUNCTIONS = {
    "clip_by_value": (optax.clip, "max"),
    "clip_by_global_norm": (optax.clip_by_global_norm, "clip_norm"),
    "clip_by_block_rms": (optax.clip_by_block_rms, "clip_norm"),
    "clip_unitwise": (optax.adaptive_grad_clip, "clip_factor"),
}
#: The abilities that only some functions have.
MORE = {"clip_unitwise": ("eps", "units_last")}


class OptaxAdapter(Adapter):
    """Adapter for the clips of Optax."""

    def about(self) -> About:
        """Return the versions of Optax and JAX, and JAX's devices."""
        return About("Optax", optax.__version__, {"jax": jax.__version__, "devices": str(jax.devices())})

    def subjects(self) -> Sequence[Subject]:
        """Return each function in each mode."""
        return list(SUBJECTS.values())

    def call(self, call: Call) -> Reply:
        """Return the answer of the entry point that the call names."""
        if any(gradient.layout != "contiguous" or gradient.rows is not None for gradient in call.gradients):
            message = "arrays of JAX have no strides and are not row-sparse"
            raise Unsupported(message, "interface")
        if "reused" in call.options:
            message = "arrays of JAX are immutable: no call can reuse the arrays of an earlier one"
            raise Unsupported(message, "interface")
        if "threads" in call.options:
            return answer_in_threads(call, self.call)
        # By default, JAX turns arrays of 64 bits into arrays of 32 bits. The setting belongs to a thread.
        with ENABLE_X64(True):
            return _answer(call)


def _answer(call: Call) -> Reply:
    is_distributed = "distributed" in SUBJECTS[call.subject].features
    make = _Placement(get_world(call)).make_array if is_distributed else _make_array
    arrays = build_tensors(call.gradients, make)
    cotangents = [gradient.cotangent and jax.numpy.asarray(gradient.cotangent.numpy()) for gradient in call.gradients]
    tree: Any = arrays[0] if call.options.get("as_single") else arrays
    passed: Any = (array for array in arrays) if call.options.get("as_generator") else tree
    with framework_call(lambda: _read(arrays)) as seen:
        if any(one is not None for one in cotangents):
            _, pull_back = jax.vjp(lambda values: _update(call, values), arrays)
            clipped = pull_back(cotangents)[0]
        else:
            clipped = _update(call, passed)
        if "followed" in call.options:
            following = make_following_call(call)
            _update(following, build_tensors(following.gradients, _make_array))
    results: List[Any] = [clipped] if call.options.get("as_single") else list(clipped)
    same = tuple(new is old for new, old in zip(results, arrays))
    apart = tuple(_compare_devices(results)) if is_distributed else None
    return Reply(_read(results), inputs=_read(arrays), same_object=same, warnings=seen.warnings, apart=apart)


def _update(call: Call, updates: Any) -> Any:
    """Make the transformation, mask the excluded gradients, and apply it to the updates, as an optimizer does."""
    subject, how = SUBJECTS[call.subject], ("as_generator", "as_single", "compiled", "world")
    if subject.operation == "clip_per_example":
        return _clip_per_example(subject, call, updates)
    dtype = next((one.array.dtype for one in call.gradients if one.array is not None), "float32")
    included = [gradient.need_clip for gradient in call.gradients]
    options, flags = convert_options(call.options, included, lambda value: jax.numpy.asarray(value, dtype))
    function, threshold = FUNCTIONS[subject.operation]
    # Optax raises an error for the options that it does not have.
    more = {name: value for name, value in options.items() if name not in (threshold, *how)}

    def update(values: Any, parameters: Any, tensors: Dict[str, Any]) -> Any:
        transformation = function(tensors.get(threshold, options[threshold]), **more)
        if not all(flags):
            transformation = optax.masked(transformation, flags[0] if "as_single" in options else flags)
        return transformation.update(values, transformation.init(values), parameters)[0]

    # The compiler traces a threshold that is an array. A number is a constant to it.
    tensors = {threshold: options[threshold]} if "tensor_threshold" in call.options else {}
    compiled = "compiled" in subject.features or options.get("compiled")
    return (jax.jit(update) if compiled else update)(updates, _build_parameters(call), tensors)


def _build_parameters(call: Call) -> Any:
    """Return the parameters, or None for a clip without any. In JAX, what has no gradient is no parameter."""
    if all(gradient.parameter is None for gradient in call.gradients):
        return None
    every = build_parameters(
        [replace(one, parameter=one.array and one.parameter) for one in call.gradients], _make_array
    )
    return every[0] if call.options.get("as_single") else every


def _clip_per_example(subject: Subject, call: Call, gradients: Any) -> Any:
    """Return the sums of the clipped gradients. The function also returns the number of clipped examples."""

    def clip(values: Any) -> Any:
        return optax.per_example_global_norm_clip(values, call.options["clip_norm"])[0]

    compiled = "compiled" in subject.features or call.options.get("compiled")
    return (jax.jit(clip) if compiled else clip)(gradients)


def _make_array(gradient: Gradient) -> jax.Array:
    assert gradient.array is not None
    return jax.numpy.asarray(gradient.array.numpy())


class _Placement:
    """Several devices, and the arrays that they share."""

    def __init__(self, world: int) -> None:
        self._mesh = jax.sharding.Mesh(np.array(jax.devices()[:world]), ("devices",))

    def make_array(self, gradient: Gradient) -> jax.Array:
        """Return an array that is split along an axis, or of which each device has a copy.

        Raises
        ------
        Unsupported
            If the parts would not be equal.
        """
        assert gradient.array is not None
        axis, shape = gradient.sharded, gradient.array.shape
        if axis is not None and shape[axis] % self._mesh.size:
            message = "JAX splits an array into equal parts only"
            raise Unsupported(message, "interface")
        spec = [] if axis is None else [None] * axis + ["devices"]
        placement = jax.sharding.NamedSharding(self._mesh, jax.sharding.PartitionSpec(*spec))
        return jax.device_put(gradient.array.numpy(), placement)


def _compare_devices(arrays: Sequence[Any]) -> List[str]:
    """Return what differs between the devices that hold the same part of a result."""
    found = []
    for place, array in enumerate(arrays):
        parts: Dict[str, List[Optional[Array]]] = {}
        for shard in () if array is None else array.addressable_shards:
            parts.setdefault(str(shard.index), []).append(Array.of(np.asarray(shard.data)))
        for copies in parts.values():
            found += compare_copies(copies, "result {}".format(place))
    return found


def _read(arrays: Sequence[Any]) -> Tuple[Optional[Array], ...]:
    return tuple(None if array is None else Array.of(jax.device_get(array)) for array in arrays)


def _list_subjects() -> List[Subject]:
    found, dtypes = [], ("float16", "bfloat16", "float32", "float64")
    for operation, (function, _) in FUNCTIONS.items():
        for mode, feature in MODES.items():
            name = "optax." + function.__name__ + mode
            features = (*COMMON, *MORE.get(operation, ()), *FLUSHES, feature)
            found.append(Subject(name, operation, dtypes, features))
            if operation in SHARDED_OPERATIONS:
                compiled = tuple({feature} & {"compiled"})
                found.append(Subject(name.replace("]", ", sharded]"), operation, dtypes, (*SHARDED, *compiled)))
    for mode, feature in MODES.items():
        features = ("functional", "mixed_dtypes", "threads", *FLUSHES, feature)
        found.append(Subject("optax.per_example_global_norm_clip" + mode, "clip_per_example", dtypes, features))
    return found


SUBJECTS = {subject.name: subject for subject in _list_subjects()}
