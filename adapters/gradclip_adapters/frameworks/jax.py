"""Adapt JAX: `clip_grads` and `l2_norm` of `jax.example_libraries.optimizers`, eager, in `jax.jit`, and on meshes.

Adapters of packages on JAX share what this one does. Each of them is a list of entry points. Each entry point has a
function that passes a tree of arrays and the options of a call to the package's own function.
"""

from __future__ import annotations

import os
from dataclasses import replace
from typing import Any, Callable, Iterable, Sequence, Tuple

# JAX reads this variable when it first looks for devices. The largest mesh has eight.
os.environ["XLA_FLAGS"] = os.environ.get("XLA_FLAGS", "") + " --xla_force_host_platform_device_count=8"

import jax
from jax.example_libraries import optimizers

from ..arrays import (
    THRESHOLDS,
    answer_in_threads,
    ask_among_others,
    build_parameters,
    build_tensors,
    convert_options,
    find_dtype,
    refuse_other_dtypes,
)
from ..contract import About, Array, Call, EntryPoint, Gradient, Reply, Unsupported, framework_call
from ..mesh import Mesh, get_mesh
from ..operations import OPERATIONS
from .answering import DeclaredAdapter, read_each
from .jax_devices import Placement, choose_device, compare_devices

DTYPES = ("float16", "bfloat16", "float32", "float64")
#: On the CPU, XLA treats subnormal numbers as zero: https://github.com/jax-ml/jax/issues/26658
#: The suite drops the feature on a device where no call does so.
FLUSHES = ("flushes_subnormals",)
#: Older versions of JAX have the context manager among the experiments.
ENABLE_X64 = jax.enable_x64 if hasattr(jax, "enable_x64") else jax.experimental.enable_x64
COMMON = (
    "functional",
    "none_grads",
    "mixed_dtypes",
    "repeated",
    "single",
    "threads",
    "follows",
    "threshold_kinds",
    "tensor_threshold",
    "differentiable",
    *FLUSHES,
)
#: The mode of entry points without arrays of 64 bits. By default, JAX turns them into arrays of 32 bits.
NARROW = "without 64 bits"
#: The mode of entry points that are called on each device of a mesh, with its own parts.
INSIDE = "shard_map"

#: A function from a tree of arrays, and options as keyword arguments, to the clipped tree and to the norm if there is
#: one. If a gradient is excluded, the argument `need_clip` holds the flags in the form of the tree. If the gradients
#: have parameters, the argument `parameters` holds them. For an optimizer, return the negated parameters after a step
#: from zero with the rate 1 (for Adam, the first moments after a step with `beta1 = 0`), refuse the options of
#: `TRAINING` that it does not follow, and declare none of the features `functional` and `differentiable`. This is the
#: form of `EntryPoint.clip` for a :class:`TreeAdapter`.
Clip = Callable[..., Tuple[Any, Any]]


class TreeAdapter(DeclaredAdapter):
    """Adapter for functions that clip trees of JAX's arrays."""

    def __init__(self, framework: str, version: str, entry_points: Iterable[EntryPoint], device: str) -> None:
        """Choose the device, and list the entry points. Only the CPU can be divided into several devices."""
        devices = {"device": choose_device(device), "devices": str(jax.devices(device))}
        super().__init__(
            About(framework, version, {"jax": jax.__version__, **devices}),
            [entry for entry in entry_points if device == "cpu" or "distributed" not in entry.features],
        )

    def call(self, call: Call) -> Reply:
        entry = self.entry_points[call.subject]
        if any(gradient.layout != "contiguous" or gradient.rows is not None for gradient in call.gradients):
            message = "arrays of JAX have no strides and are not row-sparse"
            raise Unsupported(message, "interface")
        if "reused" in call.options:
            message = "arrays of JAX are immutable: no call can reuse the arrays of an earlier one"
            raise Unsupported(message, "interface")
        is_wide = NARROW not in entry.name
        if not is_wide and any(one.array is not None and one.array.dtype == "float64" for one in call.gradients):
            message = "by default, JAX has no arrays of 64 bits"
            raise Unsupported(message, "interface")
        refuse_other_dtypes(call, entry)
        if "threads" in call.options:
            return answer_in_threads(call, self.call)
        # The setting belongs to a thread.
        with ENABLE_X64(is_wide):
            return _answer(entry, call)


def list_meshes(name: str, operation: str, features: Sequence[str], clip: Clip) -> list[EntryPoint]:
    """Return the entry points of a function on meshes, compiled: from outside, and inside `jax.shard_map`."""
    found = []
    for how, mesh in (("jit", {"replica": 2, "shard": 2, "tensor": 2}), (INSIDE, {"replica": 2, "shard": 2})):
        if how != INSIDE or hasattr(jax, "shard_map"):
            title = f"{name}[{how}, {Mesh(mesh)}]"
            found.append(EntryPoint(title, operation, ("float32",), (*features, "compiled"), clip=clip, mesh=mesh))
    return found


def list_modes(
    name: str,
    operation: str,
    features: Sequence[str],
    clip: Clip,
    compiled: Sequence[str] = DTYPES,
    *,
    eager: Sequence[str] = DTYPES,
    mode: str = "",
) -> list[EntryPoint]:
    """Return the entry points of a function: for the dtypes of `eager`, and in `jax.jit` for the dtypes of `compiled`.

    `mode` is added to their names.
    """
    found = []
    for how, feature, dtypes in (("eager", "compiles", eager), ("jit", "compiled", compiled)):
        title = f"{name}[{', '.join(filter(None, (how, mode)))}]"
        found.append(EntryPoint(title, operation, tuple(dtypes), (*features, feature), clip=clip))
    return found


def _answer(entry: EntryPoint, call: Call) -> Reply:
    is_distributed = "distributed" in entry.features
    placement = Placement(get_mesh(call)) if is_distributed else None
    arrays = build_tensors(call.gradients, _make_array if placement is None else placement.make_array)
    if placement is not None and INSIDE in entry.name:
        entry = replace(entry, clip=_put_inside(entry.clip, placement, call))
    cotangents = [gradient.cotangent and jax.numpy.asarray(gradient.cotangent.numpy()) for gradient in call.gradients]

    def ask(call: Call, arrays: list[Any]) -> tuple[Any, Any]:
        if any(one is not None for one in cotangents):
            _, pull_back = jax.vjp(lambda values: _clip(entry, call, values)[0], arrays)
            return pull_back(cotangents)[0], None
        tree: Any = arrays[0] if call.options.get("as_single") else arrays
        return _clip(entry, call, (array for array in arrays) if call.options.get("as_generator") else tree)

    with framework_call(lambda: _read(arrays)) as seen:
        clipped, norm = ask_among_others(call, arrays, ask, _make_array)
    results: list[Any] = [clipped] if call.options.get("as_single") else list(clipped)
    return Reply(
        gradients=_read(results),
        norm=None if norm is None else Array.of(jax.device_get(norm)),
        inputs=_read(arrays),
        same_object=tuple(new is old for new, old in zip(results, arrays)),
        warnings=seen.warnings,
        apart=tuple(compare_devices(results)) if is_distributed else None,
    )


def _put_inside(clip: Any, placement: Placement, call: Call) -> Clip:
    """Return a function that clips inside `jax.shard_map`, where each device sees its own parts only."""
    specs = [None if gradient.array is None else placement.make_spec(gradient) for gradient in call.gradients]

    def clip_inside(values: Any, **options: Any) -> tuple[Any, Any]:
        def run(parts: Any) -> Any:
            return list(clip(parts, **options)[0])

        inside = jax.shard_map(run, mesh=placement.mesh, in_specs=(specs,), out_specs=specs, check_vma=False)
        return inside(list(values)), None

    return clip_inside


def _clip(entry: EntryPoint, call: Call, tree: Any) -> tuple[Any, Any]:
    """Pass the tree and the options to the clip, under the compiler if the call says so."""
    dtype = find_dtype(call.gradients)
    included = [gradient.need_clip for gradient in call.gradients]
    options, flags = convert_options(call.options, included, lambda value: jax.numpy.asarray(value, dtype))
    if not all(flags):
        options["need_clip"] = flags[0] if "as_single" in call.options else flags
    # The compiler traces a threshold that is an array. A number is a constant to it.
    is_traced = "tensor_threshold" in call.options
    traced = {name: value for name, value in options.items() if is_traced and name in THRESHOLDS}
    if OPERATIONS[entry.operation].divides_gradients:
        traced.update(_build_parameters(call))

    def clip(values: Any, arguments: dict[str, Any]) -> tuple[Any, Any]:
        found: tuple[Any, Any] = entry.clip(values, **{**options, **arguments})
        return found

    compiled = "compiled" in entry.features or call.options.get("compiled")
    results: tuple[Any, Any] = (jax.jit(clip) if compiled else clip)(tree, traced)
    return results


def _build_parameters(call: Call) -> dict[str, Any]:
    """Return the parameters. In JAX, what has no gradient is no parameter."""
    with_gradient = [replace(one, parameter=one.array and one.parameter) for one in call.gradients]
    every = build_parameters(with_gradient, _make_array)
    return {"parameters": every[0] if call.options.get("as_single") else every}


def _make_array(gradient: Gradient) -> jax.Array:
    assert gradient.array is not None
    return jax.numpy.asarray(gradient.array.numpy())


def _read(arrays: Sequence[Any]) -> tuple[Array | None, ...]:
    return read_each(lambda array: Array.of(jax.device_get(array)), arrays)


class JaxAdapter(TreeAdapter):
    """Adapter for the clip of JAX's example optimizers. It returns no norm, but `l2_norm` gives one."""

    def __init__(self, device: str = "cpu") -> None:
        module = "jax.example_libraries.optimizers."
        operation, compiled = "clip_by_global_norm", ("float32",)
        measured = (*COMMON, "returns_norm")
        super().__init__(
            "JAX",
            jax.__version__,
            [
                *list_modes(module + "clip_grads", operation, COMMON, _clip_tree, compiled),
                *list_modes(module + "l2_norm then clip_grads", operation, measured, _measure_and_clip, compiled),
                *list_meshes(module + "clip_grads", operation, ("distributed", "functional", "none_grads"), _clip_tree),
            ],
            device,
        )


def _clip_tree(tree: Any, *, clip_norm: Any, **more: Any) -> tuple[Any, None]:
    return optimizers.clip_grads(tree, clip_norm, **more), None


def _measure_and_clip(tree: Any, *, clip_norm: Any, **more: Any) -> tuple[Any, Any]:
    norm = optimizers.l2_norm(tree)
    return optimizers.clip_grads(tree, clip_norm, **more), norm
