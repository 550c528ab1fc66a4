"""The reference, `gradclip_spec`, on any of the array libraries that it runs on.

Each factory at the end of this module makes an adapter for one library: `numpy()`, `array_api_strict()`, `torch()`,
`jax()`, `dask()`.
"""

from __future__ import annotations

import functools
import importlib.util
from dataclasses import dataclass
from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple

import numpy as np

import gradclip_spec

from .arrays import build_tensors, earlier_calls, in_threads, lay_out, refuse_unlisted
from .contract import OPERATIONS, About, Adapter, Array, Call, Gradient, Reply, Subject, framework_call

__all__ = ["Backend", "ReferenceAdapter", "array_api_strict", "dask", "jax", "numpy", "torch"]

NORM_TYPES = (0.5, 1.0, 1.5, 2.0, 3.0, 4.0, float("inf"))
COMMON = ("excludes", "none_grads", "mixed_dtypes", "repeated", "generator", "single", "threads")
FEATURES = {
    "clip_by_value": (*COMMON, "min_max"),
    "clip_by_norm": (*COMMON, "norm_type", "eps"),
    "clip_by_global_norm": (*COMMON, "norm_type", "eps", "returns_norm", "error_if_nonfinite"),
}


@dataclass(frozen=True)
class Backend:
    """An array library: how its arrays are made and read."""

    name: str
    version: str
    dtypes: Tuple[str, ...]
    make: Callable[[Gradient], Any]
    read: Callable[[Any], Array]
    #: Whether its arrays can be written into.
    writable: bool = True
    #: Whether its arrays lie in memory as they are asked to.
    strided: bool = True
    #: Whether they do so also backwards, and with one element for several.
    views: bool = False
    #: Puts a gradient into an array that was made for one like it.
    fill: Optional[Callable[[Any, Gradient], Any]] = None
    #: Whether its compiler computes with numbers below the normal range as with zero.
    flushes_subnormals: bool = False
    #: The values of lazy arrays, computed all at once, because what they share would else be computed for each.
    computed: Callable[[Any], Any] = lambda arrays: arrays
    #: Its compiler: a function of a list of arrays to the same, compiled.
    compile: Optional[Callable[..., Any]] = None


class ReferenceAdapter(Adapter):
    """The three operations of `gradclip_spec` on the arrays of one library, functional and in place."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self._subjects = {subject.name: subject for subject in _subjects(backend)}

    def about(self) -> About:
        """The version of the reference; the library and its version are its environment."""
        name = "gradclip_spec on {}".format(self._backend.name)
        return About(name, gradclip_spec.__version__, {self._backend.name: self._backend.version})

    def subjects(self) -> Sequence[Subject]:
        """Each operation, functional, and in place where the library's arrays can be written into."""
        return list(self._subjects.values())

    def call(self, call: Call) -> Reply:
        """Answer with the function that the call names."""
        subject = self._subjects[call.subject]
        refuse_unlisted(call, subject)
        if "threads" in call.options:
            return in_threads(call, self.call)
        arrays = build_tensors(call.gradients, self._backend.make)
        single = call.options.get("as_single", False)
        passed = (array for array in arrays) if call.options.get("as_generator") else list(arrays)
        function = functools.partial(getattr(gradclip_spec, subject.operation), **_keywords(subject, call))
        if call.options.get("compiled"):
            assert self._backend.compile is not None
            function = self._backend.compile(function)
        with framework_call(lambda: self._read(arrays)) as seen:
            for earlier in earlier_calls(call) if "reused" in call.options else ():
                self._fill(arrays, earlier)
                getattr(gradclip_spec, subject.operation)(list(arrays), **_keywords(subject, earlier))
                self._fill(arrays, call)
            result = function(arrays[0] if single else passed)
        clipped, norm = result if subject.operation == "clip_by_global_norm" else (result, None)
        clipped = [clipped] if single else clipped
        gradients, total = self._backend.computed((list(clipped), norm))
        return Reply(
            gradients=self._read(gradients),
            norm=None if total is None else self._read_norm(total),
            inputs=self._read(arrays),
            same_object=tuple(new is old for new, old in zip(clipped, arrays)),
            warnings=seen.warnings,
        )

    def _fill(self, arrays: Sequence[Any], call: Call) -> None:
        assert self._backend.fill is not None
        for array, gradient in zip(arrays, call.gradients):
            if array is not None:
                self._backend.fill(array, gradient)

    def _read(self, arrays: Sequence[Any]) -> Tuple[Optional[Array], ...]:
        return tuple(None if array is None else self._backend.read(array) for array in arrays)

    def _read_norm(self, norm: Any) -> Array:
        # That of no array at all is of no array's library.
        return _read_numpy(norm) if isinstance(norm, np.ndarray) else self._backend.read(norm)


def _keywords(subject: Subject, call: Call) -> Dict[str, Any]:
    how = ("as_generator", "as_single", "reused", "compiled")
    keywords = {name: value for name, value in call.options.items() if name not in how}
    flags = [gradient.need_clip for gradient in call.gradients]
    keywords["need_clip"] = flags[0] if call.options.get("as_single") else flags
    keywords["inplace"] = "in_place" in subject.features
    return keywords


def _subjects(backend: Backend) -> List[Subject]:
    subjects = []
    for operation in OPERATIONS:
        name = "gradclip_spec." + operation
        features = (*FEATURES[operation], *(("strided",) if backend.strided else ()))
        features += ("flushes_subnormals",) if backend.flushes_subnormals else ()
        features += ("compiles",) if backend.compile is not None else ()
        features += ("reversed", "broadcast") if backend.views else ()
        features += ("reuses",) if backend.fill is not None else ()
        norm_types = NORM_TYPES if "norm_type" in features else (2.0,)
        subjects.append(Subject(name, operation, backend.dtypes, (*features, "functional"), norm_types))
        if backend.writable:
            in_place = (*features, "in_place")
            subjects.append(Subject(name + "[inplace=True]", operation, backend.dtypes, in_place, norm_types))
    return subjects


def _laid_out(gradient: Gradient) -> np.ndarray[Any, Any]:
    assert gradient.array is not None
    return lay_out(gradient.array.numpy(), gradient.layout)


def _half_precisions() -> Tuple[str, ...]:
    """NumPy's half precisions: bfloat16 where the package that brings it is installed."""
    return ("float16", "bfloat16") if importlib.util.find_spec("ml_dtypes") else ("float16",)


def _fill_numpy(array: Any, gradient: Gradient) -> None:
    array[...] = _laid_out(gradient)


def _read_numpy(array: Any) -> Array:
    return Array.of(np.asarray(array))


def numpy() -> ReferenceAdapter:
    """The reference on NumPy."""
    dtypes = (*_half_precisions(), "float32", "float64")
    return ReferenceAdapter(
        Backend("NumPy", np.__version__, dtypes, _laid_out, _read_numpy, views=True, fill=_fill_numpy)
    )


def array_api_strict() -> ReferenceAdapter:
    """The reference on array-api-strict, which has what the standard has and nothing else."""
    import array_api_strict as xp

    def make(gradient: Gradient) -> Any:
        return xp.asarray(_laid_out(gradient))

    dtypes = ("float32", "float64")
    return ReferenceAdapter(Backend("array-api-strict", xp.__version__, dtypes, make, _read_numpy))


def torch() -> ReferenceAdapter:
    """The reference on torch's tensors."""
    from . import torch as adapter

    def make(gradient: Gradient) -> Any:
        assert gradient.array is not None
        return adapter.tensor_of(gradient.array, gradient.layout)

    version = adapter.TorchAdapter().about().version

    # `torch.compile` takes longer over the reference than a case may take; its own tests have it.
    def fill(tensor: Any, gradient: Gradient) -> None:
        tensor.copy_(make(gradient))

    return ReferenceAdapter(Backend("PyTorch", version, adapter.DTYPES, make, adapter.array_of, fill=fill))


def jax() -> ReferenceAdapter:
    """The reference on JAX, with float64 switched on."""
    import jax as library

    library.config.update("jax_enable_x64", True)

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
            writable=False,
            strided=False,
            compile=library.jit,
            # https://github.com/jax-ml/jax/issues/26658
            flushes_subnormals=library.default_backend() == "cpu",
        )
    )


def dask() -> ReferenceAdapter:
    """The reference on Dask, each array in several chunks where it has several elements."""
    import dask as package
    import dask.array as library

    def make(gradient: Gradient) -> Any:
        values = _laid_out(gradient)
        return library.from_array(values, chunks=tuple(max(1, (length + 1) // 2) for length in values.shape))

    dtypes = (*_half_precisions(), "float32", "float64")

    def computed(arrays: Any) -> Any:
        (values,) = package.compute(arrays)
        return values

    return ReferenceAdapter(
        Backend("Dask", package.__version__, dtypes, make, _read_numpy, writable=False, computed=computed)
    )
