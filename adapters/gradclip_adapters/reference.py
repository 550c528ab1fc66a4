"""Adapt the reference, `gradclip_spec`, on each array library that it supports.

Each factory at the end of this module makes an adapter for one library: `numpy()`, `array_api_strict()`, `torch()`,
`jax()`, `cupy()`, `dask()`.
"""

from __future__ import annotations

import ctypes
import functools
import importlib.util
import inspect
from dataclasses import dataclass, replace
from typing import Any, Callable, Sequence

import numpy as np

import gradclip_spec

from .arrays import (
    FEATURE_OF_LAYOUT,
    FEATURE_OF_PARAMETER,
    UNWRITABLE,
    answer_in_threads,
    ask_among_others,
    build_parameters,
    build_tensors,
    convert_options,
    make_array,
    refuse_unlisted,
)
from .contract import (
    OPERATIONS,
    About,
    Array,
    Call,
    EntryPoint,
    Gradient,
    MissingDevice,
    Reply,
    framework_call,
)
from .frameworks.answering import DeclaredAdapter, read_each
from .surroundings import find_shared, watch_memory

NORM_TYPES = (0.5, 1.0, 1.5, 2.0, 2.5, 3.0, 4.0, 6.0, float("inf"))
#: The features of every function.
COMMON = ("none_grads", "mixed_dtypes", "repeated", "generator", "single", "threads")

#: The layouts that an array library has whose arrays are views of memory, as those of NumPy are.
VIEWS = ("reversed", "broadcast", "packed", "swapped", "read_only", "unaligned")


@dataclass(frozen=True)
class Backend:
    """An array library: the functions that make and read its arrays, and its abilities."""

    name: str
    version: str
    dtypes: tuple[str, ...]
    make: Callable[[Gradient], Any]
    read: Callable[[Any], Array]
    #: The device, with the name of the card if there is one.
    device: str = "cpu"
    #: Whether its arrays are writable.
    writable: bool = True
    #: Whether its arrays take the memory layout that a case asks for.
    strided: bool = True
    #: Whether these layouts include reversed and broadcast ones.
    views: bool = False
    #: A function that writes elements into an array of the library.
    fill: Callable[[Any, Array], Any] | None = None
    #: Whether its compiler treats subnormal numbers as zero.
    flushes_subnormals: bool = False
    #: A function that evaluates lazy arrays together, so that their shared parts are computed once.
    compute: Callable[[Any], Any] = lambda arrays: arrays
    #: The library's compiler. It compiles a function that takes a list of arrays.
    compile: Callable[..., Any] | None = None
    #: A function that differentiates a function of a list of arrays. It returns the derivatives times the cotangents.
    pull_back: Callable[[Callable[..., Any], list[Any], list[Any]], Sequence[Any]] | None = None


class ReferenceAdapter(DeclaredAdapter):
    """Adapter for `gradclip_spec` on the arrays of one library, functional and in place."""

    def __init__(self, backend: Backend) -> None:
        environment = {backend.name: backend.version, "device": backend.device}
        about = About(f"gradclip_spec on {backend.name}", gradclip_spec.__version__, environment)
        super().__init__(about, _list_entry_points(backend))
        self._backend = backend

    def call(self, call: Call) -> Reply:
        """Return the answer of the function that the call names."""
        entry_point = self.entry_points[call.subject]
        refuse_unlisted(call, entry_point, "interface")
        if "threads" in call.options:
            return answer_in_threads(call, self.call)
        if any(gradient.cotangent is not None for gradient in call.gradients):
            return self._pull_back(entry_point, call)
        arrays = build_tensors(call.gradients, self._backend.make)
        single = call.options.get("as_single", False)
        look_again = watch_memory(arrays) if self._backend.views else tuple
        with framework_call(lambda: self._read(arrays)) as seen:
            ask = functools.partial(self._ask, entry_point)
            result = ask_among_others(call, arrays, ask, self._backend.make, self._backend.fill)
        clipped, norm = result if OPERATIONS[entry_point.operation].returns_norm else (result, None)
        clipped = [clipped] if single else clipped
        gradients, total = self._backend.compute((list(clipped), norm))
        return Reply(
            gradients=self._read(gradients),
            norm=None if total is None else self._read_norm(total),
            inputs=self._read(arrays),
            same_object=tuple(new is old for new, old in zip(clipped, arrays)),
            warnings=seen.warnings,
            shared=tuple(find_shared(clipped, arrays)) if self._backend.views else None,
            disturbed=look_again(),
        )

    def _ask(self, entry_point: EntryPoint, call: Call, arrays: list[Any]) -> Any:
        """Pass arrays to the function in the form that the call asks for, and return what it returns."""
        keywords = self._build_keywords(entry_point, call)
        function = functools.partial(getattr(gradclip_spec, entry_point.operation), **keywords)
        if call.options.get("compiled"):
            assert self._backend.compile is not None
            function = self._backend.compile(function)
        if call.options.get("as_single"):
            return function(arrays[0])
        return function((array for array in arrays) if call.options.get("as_generator") else list(arrays))

    def _build_keywords(self, entry_point: EntryPoint, call: Call) -> dict[str, Any]:
        keywords, flags = convert_options(call.options, [gradient.need_clip for gradient in call.gradients])
        taken, is_single = _list_parameters(entry_point.operation), call.options.get("as_single")
        if "need_clip" in taken:
            keywords["need_clip"] = flags[0] if is_single else flags
        if "inplace" in taken:
            keywords["inplace"] = "in_place" in entry_point.features
        if "params" in taken:
            parameters = build_parameters(call.gradients, self._backend.make)
            keywords["params"] = parameters[0] if is_single else parameters
        return keywords

    def _pull_back(self, entry_point: EntryPoint, call: Call) -> Reply:
        assert self._backend.pull_back is not None
        arrays = build_tensors(call.gradients, self._backend.make)
        cotangents = [self._backend.make(replace(one, array=one.cotangent)) for one in call.gradients]

        def clip(values: Any) -> Any:
            result = getattr(gradclip_spec, entry_point.operation)(values, **self._build_keywords(entry_point, call))
            return list(result[0] if OPERATIONS[entry_point.operation].returns_norm else result)

        with framework_call() as seen:
            found = self._backend.pull_back(clip, arrays, cotangents)
        return Reply(self._read(found), warnings=seen.warnings)

    def _read(self, arrays: Sequence[Any]) -> tuple[Array | None, ...]:
        return read_each(self._backend.read, arrays)

    def _read_norm(self, norm: Any) -> Array:
        # The norm of an empty list is a NumPy array, whatever the library.
        return _read_numpy(norm) if isinstance(norm, np.ndarray) else self._backend.read(norm)


@functools.cache
def _list_parameters(operation: str) -> tuple[str, ...]:
    return tuple(inspect.signature(getattr(gradclip_spec, operation)).parameters)


def _list_entry_points(backend: Backend) -> list[EntryPoint]:
    entry_points = []
    for operation in OPERATIONS:
        name, taken = "gradclip_spec." + operation, _list_parameters(operation)
        features = (*COMMON, *(FEATURE_OF_PARAMETER[one] for one in taken if one in FEATURE_OF_PARAMETER))
        features += ("returns_norm",) if OPERATIONS[operation].returns_norm else ()
        features += ("strided",) if backend.strided else ()
        features += ("flushes_subnormals",) if backend.flushes_subnormals else ()
        features += ("compiles",) if backend.compile is not None else ()
        features += VIEWS if backend.views else ()
        features += ("reuses",) if backend.fill is not None else ()
        features += ("follows", "flag_kinds", "threshold_kinds")
        norm_types = NORM_TYPES if "norm_type" in features else (2.0,)
        functional = ("functional", "differentiable") if backend.pull_back is not None else ("functional",)
        entry_points.append(EntryPoint(name, operation, backend.dtypes, (*features, *functional), norm_types))
        if backend.writable and "inplace" in taken:
            in_place = ("in_place", *(name for name in features if name not in map(FEATURE_OF_LAYOUT.get, UNWRITABLE)))
            entry_points.append(EntryPoint(name + "[inplace=True]", operation, backend.dtypes, in_place, norm_types))
    return entry_points


def _list_half_precisions() -> tuple[str, ...]:
    """Return NumPy's half precisions. Bfloat16 needs the package ml_dtypes."""
    return ("float16", "bfloat16") if importlib.util.find_spec("ml_dtypes") else ("float16",)


def _fill_numpy(array: Any, values: Array) -> None:
    array[...] = values.numpy()


def _read_numpy(array: Any) -> Array:
    return Array.of(np.asarray(array))


def numpy() -> ReferenceAdapter:
    """Return the adapter for NumPy."""
    dtypes = (*_list_half_precisions(), "float32", "float64")
    return ReferenceAdapter(
        Backend("NumPy", np.__version__, dtypes, make_array, _read_numpy, views=True, fill=_fill_numpy)
    )


def array_api_strict() -> ReferenceAdapter:
    """Return the adapter for array-api-strict, which offers only what the standard requires."""
    import array_api_strict as xp

    def make(gradient: Gradient) -> Any:
        return xp.asarray(make_array(gradient))

    dtypes = ("float32", "float64")
    return ReferenceAdapter(Backend("array-api-strict", xp.__version__, dtypes, make, _read_numpy))


def torch(device: str = "cpu") -> ReferenceAdapter:
    """Return the adapter for torch on a device."""
    import torch as library

    from .frameworks.torch_based import parameters as adapter

    adapter.choose_device(device)

    def make(gradient: Gradient) -> Any:
        assert gradient.array is not None
        return adapter.make_tensor(gradient.array, gradient.layout)

    version = library.__version__

    def fill(tensor: Any, values: Array) -> None:
        tensor.copy_(adapter.make_tensor(values))

    # No `compile`: `torch.compile` takes longer for the reference than a case may take. The tests of the reference
    # cover it.
    def pull_back(function: Callable[..., Any], arrays: list[Any], cotangents: list[Any]) -> Sequence[Any]:
        leaves = [array.requires_grad_() for array in arrays]
        return list(library.autograd.grad(function(leaves), leaves, cotangents))

    name, read = adapter.describe_device(), adapter.read_array
    return ReferenceAdapter(
        Backend("PyTorch", version, adapter.DTYPES, make, read, name, fill=fill, pull_back=pull_back)
    )


def jax(device: str = "cpu") -> ReferenceAdapter:
    """Return the adapter for JAX on a device, with float64 switched on."""
    import jax as library

    from .frameworks.jax_devices import choose_device

    library.config.update("jax_enable_x64", True)
    name = choose_device(device)

    def make(gradient: Gradient) -> Any:
        assert gradient.array is not None
        return library.numpy.asarray(gradient.array.numpy())

    dtypes = ("float16", "bfloat16", "float32", "float64")
    return ReferenceAdapter(
        Backend(
            "JAX",
            library.__version__,
            dtypes,
            make,
            _read_numpy,
            name,
            writable=False,
            strided=False,
            compile=library.jit,
            pull_back=lambda function, arrays, cotangents: library.vjp(function, arrays)[1](cotangents)[0],
            # Only on the CPU: https://github.com/jax-ml/jax/issues/26658. The suite drops the feature elsewhere.
            flushes_subnormals=True,
        )
    )


def cupy(device: str = "cuda") -> ReferenceAdapter:
    """Return the adapter for CuPy, which works on GPUs only."""
    import cupy as library

    try:
        card = library.cuda.runtime.getDeviceProperties(library.cuda.runtime.getDevice())["name"].decode()
    except library.cuda.runtime.CUDARuntimeError:
        card = ""
    if device != "cuda" or not card:
        message = f"CuPy {library.__version__} finds no device {device!r} on this machine."
        raise MissingDevice(message)

    def make(gradient: Gradient) -> Any:
        return _move_to_cupy(library, make_array(gradient))

    def fill(array: Any, values: Array) -> None:
        array[...] = library.asarray(values.numpy())

    # CuPy has no bfloat16.
    dtypes = ("float16", "float32", "float64")

    def read(array: Any) -> Array:
        return Array.of(library.asnumpy(array))

    return ReferenceAdapter(Backend("CuPy", library.__version__, dtypes, make, read, f"cuda ({card})", fill=fill))


def _move_to_cupy(library: Any, values: np.ndarray[Any, Any]) -> Any:
    """Return a copy on the GPU with the same strides. CuPy would close the gaps between the elements."""
    if values.flags.c_contiguous or not values.size:
        return library.asarray(values)
    reach = values.itemsize + sum((length - 1) * stride for length, stride in zip(values.shape, values.strides))
    start = values.__array_interface__["data"][0]
    buffer = library.asarray(np.frombuffer((ctypes.c_char * reach).from_address(start), np.uint8))
    return library.ndarray(values.shape, values.dtype, memptr=buffer.data, strides=values.strides)


def dask() -> ReferenceAdapter:
    """Return the adapter for Dask, where each array of several elements has several chunks."""
    import dask as package
    import dask.array as library

    def make(gradient: Gradient) -> Any:
        values = make_array(gradient)
        return library.from_array(values, chunks=tuple(max(1, (length + 1) // 2) for length in values.shape))

    dtypes = (*_list_half_precisions(), "float32", "float64")

    def compute(arrays: Any) -> Any:
        (values,) = package.compute(arrays)
        return values

    return ReferenceAdapter(
        Backend("Dask", package.__version__, dtypes, make, _read_numpy, writable=False, compute=compute)
    )
