"""The array libraries that the tests of the reference run on, as far as they are installed.

With the environment variable GRADCLIP_REQUIRE set to a library's name, its absence is an error and not a skip. Tests
of a library that is missing and not required are not collected.
"""

from __future__ import annotations

import importlib
import inspect
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from frameworks import has_library, is_required

#: What the tests here import, by distribution; `nox -s "spec(NAME)"` installs each.
LIBRARIES = ("numpy", "array-api-strict", "torch", "jax", "dask", "cupy")

#: Files that import torch at their top.
collect_ignore = [] if has_library("torch") or is_required("torch") else ["test_torch_tensors.py", "test_devices.py"]


@dataclass(frozen=True)
class Backend:
    """How to make arrays of a library, and how to read them back."""

    name: str
    make: Callable[[Any, str], Any]
    read: Callable[[Any], np.ndarray[Any, Any]]
    dtypes: tuple[str, ...] = ("float32", "float64")
    #: Whether values may be looked at, so that arrays with nothing to clip come back themselves.
    eager: bool = True
    writeable: bool = True
    #: What an array of the library is an instance of.
    array_type: Any = object

    def array(self, values: Any, dtype: str = "float32") -> Any:
        """An array of the library."""
        return self.make(values, dtype)


def _numpy_dtype(name: str) -> np.dtype[Any]:
    if name == "bfloat16":
        import ml_dtypes

        return np.dtype(ml_dtypes.bfloat16)
    return np.dtype(name)


def _numpy() -> Backend:
    dtypes = ("float16", "bfloat16", "float32", "float64")
    return Backend("numpy", lambda v, d: np.array(v, _numpy_dtype(d)), np.asarray, dtypes, array_type=np.ndarray)


def _read_only() -> Backend:
    def make(values: Any, dtype: str) -> Any:
        array = np.array(values, _numpy_dtype(dtype))
        array.flags.writeable = False
        return array

    dtypes = ("float16", "bfloat16", "float32", "float64")
    return Backend("numpy-read-only", make, np.asarray, dtypes, writeable=False, array_type=np.ndarray)


def _strict(device: str | None) -> Callable[[], Backend]:
    def build() -> Backend:
        strict = importlib.import_module("array_api_strict")
        place = None if device is None else strict.Device(device)

        def make(values: Any, dtype: str) -> Any:
            return strict.asarray(np.array(values, dtype), device=place)

        def read(array: Any) -> np.ndarray[Any, Any]:
            return np.array(array.to_device(strict.Device("CPU_DEVICE")))

        name = "array-api-strict" if device is None else f"array-api-strict-{device}"
        dtypes = ("float32", "float64") if device is None else ("float32",)
        return Backend(name, make, read, dtypes, array_type=type(make(0, "float32")))

    return build


def _torch() -> Backend:
    torch = importlib.import_module("torch")

    def make(values: Any, dtype: str) -> Any:
        # Through NumPy, so that Python numbers are rounded the same way on every backend.
        bits = np.array(values, _numpy_dtype(dtype))
        if dtype == "bfloat16":
            return torch.from_numpy(bits.view(np.int16)).view(torch.bfloat16)
        return torch.from_numpy(bits)

    def read(array: Any) -> np.ndarray[Any, Any]:
        array = array.detach()
        if array.dtype == torch.bfloat16:
            return np.asarray(array.view(torch.int16).numpy().view(_numpy_dtype("bfloat16")))
        return np.asarray(array.numpy())

    return Backend("torch", make, read, ("float16", "bfloat16", "float32", "float64"), array_type=torch.Tensor)


def _jax() -> Backend:
    jax = importlib.import_module("jax")
    dtypes = ("float16", "bfloat16", "float32")
    return Backend(
        "jax",
        lambda v, d: jax.numpy.asarray(np.array(v, _numpy_dtype(d))),
        np.asarray,
        dtypes,
        eager=False,
        writeable=False,
        array_type=jax.Array,
    )


def _dask() -> Backend:
    array = importlib.import_module("dask.array")

    def make(values: Any, dtype: str) -> Any:
        values = np.array(values, _numpy_dtype(dtype))
        return array.from_array(values, chunks=tuple(max(n // 2, 1) for n in values.shape))

    def read(x: Any) -> np.ndarray[Any, Any]:
        return np.asarray(x.compute(scheduler="synchronous"))

    return Backend(
        "dask",
        make,
        read,
        ("float16", "bfloat16", "float32", "float64"),
        eager=False,
        writeable=False,
        array_type=array.Array,
    )


def _cupy() -> Backend:
    cupy = importlib.import_module("cupy")
    return Backend(
        "cupy",
        lambda v, d: cupy.asarray(np.array(v, d)),
        cupy.asnumpy,
        ("float16", "float32", "float64"),
        eager=False,
        array_type=cupy.ndarray,
    )


BACKENDS: dict[str, Callable[[], Backend]] = {
    "numpy": _numpy,
    "numpy-read-only": _read_only,
    "array-api-strict": _strict(None),
    "array-api-strict-no_float64": _strict("no_float64"),
    "array-api-strict-no_x64": _strict("no_x64"),
    "torch": _torch,
    "jax": _jax,
    "dask": _dask,
    "cupy": _cupy,
}


def _built(name: str) -> Backend:
    try:
        return BACKENDS[name]()
    except ImportError as error:
        if is_required(library_of(name)):
            raise
        pytest.skip(f"{name} is not installed: {error}")


def library_of(backend: str) -> str:
    """Return the library that a backend needs: the longest name of a library that begins the backend's name."""
    return max((name for name in LIBRARIES if backend.startswith(name)), key=len)


@pytest.fixture(scope="module", params=list(BACKENDS))
def backend(request: pytest.FixtureRequest) -> Backend:
    """Return each array library that is installed."""
    return _built(request.param)


@pytest.fixture
def require() -> Callable[[str], Any]:
    """Return a function that imports what a test needs: a skip where it is missing, an error where it is required."""

    def import_or_skip(module: str) -> Any:
        try:
            return importlib.import_module(module)
        except ImportError as error:
            if is_required(module.partition(".")[0]):
                raise
            pytest.skip(f"{module} is not installed: {error}")

    return import_or_skip


#: How a test asks for a library in its body.
ASKS = re.compile(r"\b(?:require|importorskip)\(\"([\w-]+)|^ +import (torch|jax|dask)\b", re.MULTILINE)


def pytest_itemcollected(item: pytest.Item) -> None:
    """Mark a test with the libraries that it asks for, so that only a session that has them collects it."""
    if isinstance(item, pytest.Function):
        asked = {first or second for first, second in ASKS.findall(inspect.getsource(item.function))}
        if (name := parameters_of(item).get("backend")) is not None:
            asked.add(library_of(name))
        if (library := parameters_of(item).get("library")) is not None:
            asked.add(library)
        for library in asked:
            item.add_marker(pytest.mark.array_library(library))


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Drop the combinations of parameters for which a test has no meaning.

    They are those for which the predicate of `@pytest.mark.only_where` is false. It takes parameters of the test by
    their names. A parameter `dtype` beside a backend must be one of the backend's.
    """
    items[:] = [item for item in items if has_meaning(item)]


def has_meaning(item: pytest.Item) -> bool:
    """Tell whether a test applies to its parameters."""
    known = parameters_of(item)
    # What is still here has its library, or must have it.
    if (name := known.get("backend")) is not None and has_library(library_of(name)):
        known |= {"backend": _built(name)}
        if known.get("dtype", "float32") not in known["backend"].dtypes:
            return False
    predicates = [mark.args[0] for mark in item.iter_markers("only_where")]
    return all(each(**{name: known[name] for name in inspect.signature(each).parameters}) for each in predicates)


def parameters_of(item: pytest.Item) -> dict[str, Any]:
    """Return the parameters of a test by name; none for a test that has none."""
    return dict(item.callspec.params) if hasattr(item, "callspec") else {}
