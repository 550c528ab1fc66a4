"""Choose the array libraries for the tests of the reference: NumPy and array-api-strict.

The environment variable GRADCLIP_REQUIRE can name another library. Then only the tests of that library run, and they
fail if it is missing.
"""

from __future__ import annotations

import functools
import inspect
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import hostile
import numpy as np
import pytest
from frameworks import has_library
from hostile import Freedom

from gradclip_spec import kernels

ALL_DTYPES = ("float16", "bfloat16", "float32", "float64")


@dataclass(frozen=True)
class Backend:
    """A library under test. It makes arrays and reads them back."""

    name: str
    make: Callable[[Any, str], Any]
    read: Callable[[Any], np.ndarray[Any, Any]]
    dtypes: tuple[str, ...] = ("float32", "float64")
    #: Whether a clip may read values. If so, it returns an array itself when there is nothing to clip.
    eager: bool = True
    writeable: bool = True
    #: Whether the device has float64.
    has_float64: bool = True
    #: Whether arithmetic keeps subnormal numbers, in both dtypes.
    keeps_subnormals: bool = True
    #: Whether the library's powers are right where the result is a number of the format. If not, they are up to two ulp
    #: off.
    exact_powers: bool = True
    #: Whether an array without dimensions can be converted to a number of Python.
    readable: bool = True
    #: The class of the library's arrays.
    array_type: Any = object

    def array(self, values: Any, dtype: str = "float32") -> Any:
        """Return an array of the library."""
        return self.make(values, dtype)


def _find_numpy_dtype(name: str) -> np.dtype[Any]:
    if name == "bfloat16":
        import ml_dtypes

        return np.dtype(ml_dtypes.bfloat16)
    return np.dtype(name)


def _make_numpy(writeable: bool = True) -> Backend:
    def make(values: Any, dtype: str) -> Any:
        array = np.array(values, _find_numpy_dtype(dtype))
        array.flags.writeable = writeable
        return array

    name = "numpy" if writeable else "numpy-read-only"
    return Backend(name, make, np.asarray, ALL_DTYPES, writeable=writeable, array_type=np.ndarray)


def _make_strict(device: str | None = None) -> Backend:
    import array_api_strict as strict

    place = None if device is None else strict.Device(device)

    def make(values: Any, dtype: str) -> Any:
        return strict.asarray(np.array(values, dtype), device=place)

    def read(array: Any) -> np.ndarray[Any, Any]:
        return np.array(array.to_device(strict.Device("CPU_DEVICE")))

    name = "array-api-strict" if device is None else f"array-api-strict-{device}"
    dtypes = ("float32", "float64") if device is None else ("float32",)
    return Backend(name, make, read, dtypes, has_float64=device is None, array_type=type(make(0, "float32")))


def _make_hostile(*freedoms: Freedom) -> Backend:
    """Return a library with these freedoms; see `hostile`."""
    library = hostile.make_library(freedoms)
    return Backend(
        "hostile-" + "+".join(freedom.name.lower() for freedom in freedoms),
        lambda values, dtype: library.asarray(np.array(values, dtype)),
        hostile.read,
        eager=Freedom.UNREADABLE not in freedoms,
        writeable=Freedom.IMMUTABLE not in freedoms,
        keeps_subnormals=not {Freedom.FLUSHES_FLOAT32, Freedom.FLUSHES_FLOAT64} & set(freedoms),
        exact_powers=not hostile.POWERS & set(freedoms),
        readable=Freedom.UNREADABLE not in freedoms,
        array_type=hostile.Array,
    )


def _make_torch() -> Backend:
    import torch

    # `tools/gpu.py` sets this variable.
    device = os.environ.get("GRADCLIP_DEVICE", "cpu")

    def make(values: Any, dtype: str) -> Any:
        # Convert through NumPy, so that Python numbers are rounded the same way on every backend.
        bits = np.array(values, _find_numpy_dtype(dtype))
        if dtype == "bfloat16":
            return torch.from_numpy(bits.view(np.int16)).view(torch.bfloat16).to(device)
        return torch.from_numpy(bits).to(device)

    def read(array: Any) -> np.ndarray[Any, Any]:
        array = array.detach().cpu()
        if array.dtype == torch.bfloat16:
            return np.asarray(array.view(torch.int16).numpy().view(_find_numpy_dtype("bfloat16")))
        return np.asarray(array.numpy())

    return Backend("torch", make, read, ALL_DTYPES, eager=device == "cpu", array_type=torch.Tensor)


def _make_jax() -> Backend:
    import jax

    dtypes = ("float16", "bfloat16", "float32")
    return Backend(
        "jax",
        lambda v, d: jax.numpy.asarray(np.array(v, _find_numpy_dtype(d))),
        np.asarray,
        dtypes,
        eager=False,
        writeable=False,
        keeps_subnormals=False,
        array_type=jax.Array,
    )


def _make_dask() -> Backend:
    from dask import array

    def make(values: Any, dtype: str) -> Any:
        values = np.array(values, _find_numpy_dtype(dtype))
        return array.from_array(values, chunks=tuple(max(n // 2, 1) for n in values.shape))

    def read(x: Any) -> np.ndarray[Any, Any]:
        return np.asarray(x.compute(scheduler="synchronous"))

    return Backend("dask", make, read, ALL_DTYPES, eager=False, writeable=False, array_type=array.Array)


def _make_cupy() -> Backend:
    import cupy

    return Backend(
        "cupy",
        lambda v, d: cupy.asarray(np.array(v, d)),
        cupy.asnumpy,
        ("float16", "float32", "float64"),
        eager=False,
        array_type=cupy.ndarray,
    )


#: The freedoms that exclude no other one.
EVERYWHERE = (
    Freedom.FLUSHES_FLOAT32,
    Freedom.FLUSHES_FLOAT64,
    Freedom.CONTRACTS,
    Freedom.UNHASHABLE,
    Freedom.UNREADABLE,
)
#: Every freedom is taken in one of these libraries, and together with all that go with it.
HOSTILE = {
    "hostile-low": (Freedom.POWERS_ONE_LOW, Freedom.SUMS_BACKWARDS, Freedom.IMMUTABLE, *EVERYWHERE),
    "hostile-high": (Freedom.POWERS_TWO_HIGH, Freedom.SUMS_HALVED, Freedom.COPIES_SLICES, *EVERYWHERE),
    "hostile-mixed": (Freedom.POWERS_MIXED, Freedom.SUMS_SHUFFLED, Freedom.COPIES_SLICES, *EVERYWHERE),
}
if "GRADCLIP_DEEP" in os.environ:
    # Each freedom alone tells which of them breaks a test.
    HOSTILE |= {f"hostile-{freedom.name.lower()}": (freedom,) for freedom in Freedom}

BACKENDS: dict[str, Callable[[], Backend]] = {
    "numpy": _make_numpy,
    "numpy-read-only": functools.partial(_make_numpy, writeable=False),
    "array-api-strict": _make_strict,
    "array-api-strict-no_float64": functools.partial(_make_strict, "no_float64"),
    "array-api-strict-no_x64": functools.partial(_make_strict, "no_x64"),
    **{name: functools.partial(_make_hostile, *freedoms) for name, freedoms in HOSTILE.items()},
    "torch": _make_torch,
    "jax": _make_jax,
    "dask": _make_dask,
    "cupy": _make_cupy,
}


@functools.cache
def _make_backend(name: str) -> Backend:
    """Return the library with a name. To make a hostile one takes long."""
    return BACKENDS[name]()


#: The library whose tests run. If it is empty, the tests of NumPy and array-api-strict run.
LIBRARY = os.environ.get("GRADCLIP_REQUIRE", "")
#: Other libraries, which have separate sessions.
OTHERS = ("torch", "jax", "dask", "cupy", "sparse", "ndonnx")


def _find_library(item: pytest.Item) -> str:
    """Return the library that a test needs in addition to NumPy and array-api-strict, or an empty text."""
    # Numba is no array library: the tests of several libraries need it.
    marked = [mark.args[0] for mark in item.iter_markers("array_library")]
    params = getattr(getattr(item, "callspec", None), "params", {})
    named = [params.get("backend"), params.get("library"), *item.path.stem.split("_"), *item.name.split("_")]
    return next((word for word in (*marked, *named) if word in OTHERS), "")


def _is_twin(item: pytest.Item) -> bool:
    """Return whether a slow test repeats another one on a variant of its backend. GRADCLIP_DEEP=1 runs it, too."""
    slow = item.path.stem in ("test_accuracy", "test_properties", "test_large") and "GRADCLIP_DEEP" not in os.environ
    params = getattr(getattr(item, "callspec", None), "params", {})
    return slow and params.get("backend") in ("numpy-read-only", "array-api-strict-no_x64")


def pytest_itemcollected(item: pytest.Item) -> None:
    """Mark the tests that are given compiled loops by a parameter. The session collects them only if it has numba."""
    params = getattr(getattr(item, "callspec", None), "params", {})
    if params.get("loops") == "compiled" and not has_library("numba"):
        item.add_marker(pytest.mark.array_library("numba"))


def pytest_ignore_collect(collection_path: Path) -> bool | None:
    """Skip the files of libraries that this session does not test. Importing them would fail."""
    name = next((word for word in collection_path.stem.split("_") if word in OTHERS), "")
    return True if name and not LIBRARY.startswith(name) else None


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Keep the tests of the requested library."""
    here = [item for item in items if item.path.parent == Path(__file__).parent]
    wanted = "" if LIBRARY in ("", "numpy", "array-api-strict") else LIBRARY
    left_out = [item for item in here if _find_library(item) != wanted or _is_twin(item)]
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        outside = set(left_out)
        items[:] = [item for item in items if item not in outside]
    items[:] = [item for item in items if item.path.parent != Path(__file__).parent or _has_meaning(item)]


def _has_meaning(item: pytest.Item) -> bool:
    """Return whether a test applies to its parameters.

    It does not apply if the predicate of `@pytest.mark.only_where` is false, or if the backend lacks the test's
    `dtype`. The predicate takes parameters of the test by their names.
    """
    known = dict(getattr(getattr(item, "callspec", None), "params", {}))
    if (name := known.get("backend")) is not None:
        known["backend"] = _make_backend(name)
        if known.get("dtype", "float32") not in known["backend"].dtypes:
            return False
    predicates = [mark.args[0] for mark in item.iter_markers("only_where")]
    return all(each(**{name: known[name] for name in inspect.signature(each).parameters}) for each in predicates)


@pytest.fixture(scope="module", params=list(BACKENDS))
def backend(request: pytest.FixtureRequest) -> Backend:
    """Return each array library."""
    return _make_backend(request.param)


@pytest.fixture
def use_loops(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Return a function that selects "compiled" or "plain" loops for a test. It skips the test if numba is missing."""

    def use(kind: str) -> None:
        loops = kernels.load_compiled()
        if kind == "compiled" and loops is None:
            pytest.skip("numba is not installed")
        monkeypatch.setattr(kernels, "load_compiled", lambda: loops if kind == "compiled" else None)

    return use
