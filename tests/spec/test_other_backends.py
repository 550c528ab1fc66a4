"""Check array libraries for which the reference has no special code. The array API standard is enough.

docs/reference/backends.md lists what works on each library.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from gradclip_spec import clip_by_global_norm, clip_by_norm, clip_by_value, global_norm

DTYPES = ["float16", "float32", "float64"]
EXTREMES = [[3.0, 4.0], [0.3, 0.4], [0.0, 0.0], [1e30, 1e25], [1e-30, 1e-30], [math.nan, 1.0], [math.inf, 1.0]]


def make_gradients(dtype: str) -> list[np.ndarray[Any, Any]]:
    """Return gradients with many zeros."""
    random = np.random.default_rng(0)
    return [
        (random.standard_normal(shape) * (random.random(shape) < 0.3)).astype(dtype) for shape in [(30, 40), (500,)]
    ]


def assert_same(got: Any, wanted: Any, read: Any, ulps: int) -> None:
    """Assert that arrays of another library equal NumPy's within a number of roundings."""
    __tracebackhide__ = True
    for x, y in zip(got, wanted, strict=True):
        if y is None:
            assert x is None
            continue
        assert str(x.dtype).rpartition(".")[2].lower() == y.dtype.name
        np.testing.assert_array_max_ulp(read(x), y, ulps)


def check(make: Any, read: Any, dtype: str) -> None:
    """Run all functions of the reference, and compare the results with NumPy's."""
    __tracebackhide__ = True
    values = [*make_gradients(dtype), None]
    arrays = [None if x is None else make(x) for x in values]
    for threshold in (0.0, 1.25, 1e4):
        clipped, total = clip_by_global_norm(arrays, threshold)
        expected, alone = clip_by_global_norm(values, threshold)
        assert_same([*clipped, total], [*expected, alone], read, 1 if dtype != "float64" else 2)
    for norm_type in (0.5, 1, 2, 3, math.inf):
        got = [*clip_by_norm(arrays, 1.25, norm_type=norm_type), global_norm(arrays, norm_type=norm_type)]
        wanted = [*clip_by_norm(values, 1.25, norm_type=norm_type), global_norm(values, norm_type=norm_type)]
        # Each library computes powers in its own way: each result in float64 may have an error of 3 ulp.
        assert_same(got, wanted, read, 6 if dtype == "float64" and norm_type in (0.5, 3) else 2)
    assert_same(clip_by_value(arrays, 0.5, -0.25), clip_by_value(values, 0.5, -0.25), read, 0)
    flags = {"weight": True, "bias": False}
    named = dict(zip(flags, arrays, strict=False))
    clipped, _ = clip_by_global_norm(named, 1.25, need_clip=flags)
    assert clipped["bias"] is named["bias"]
    with pytest.raises(TypeError, match="one array library"):
        clip_by_global_norm([arrays[0], values[0]], 1.0)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.array_library("sparse")
def test_sparse(dtype: str) -> None:
    import sparse

    def read(x: Any) -> np.ndarray[Any, Any]:
        return np.asarray(x.todense() if hasattr(x, "todense") else x)

    check(sparse.COO.from_numpy, read, dtype)
    array = sparse.COO.from_numpy(make_gradients(dtype)[0])
    clipped, _ = clip_by_global_norm(array, 1.0)
    assert clipped.nnz == array.nnz
    with pytest.raises(TypeError, match="inplace"):
        clip_by_global_norm(array, 1.0, inplace=True)


@pytest.mark.parametrize(("dtype", "norm_type"), [("float64", 2), ("float32", 1), ("float32", 3)])
def test_sparse_takes_time_only_for_stored_elements(dtype: str, norm_type: float) -> None:
    import sparse

    # There are too many elements to process them one by one.
    shape, places = (1 << 20, 1 << 20), np.array([[5, 1 << 19], [7, 3]])
    array = sparse.COO(places, np.array([3.0, -4.0], dtype), shape=shape)

    clipped, total = clip_by_global_norm(array, 0.5, norm_type=norm_type)

    expected, alone = clip_by_global_norm(np.array([3.0, -4.0], dtype), 0.5, norm_type=norm_type)
    assert clipped.nnz == 2
    np.testing.assert_array_max_ulp(np.array([clipped[5, 7], clipped[1 << 19, 3]]), expected, 2)
    assert total.todense() == alone


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.array_library("ndonnx")
def test_ndonnx(dtype: str) -> None:
    import ndonnx

    check(ndonnx.asarray, lambda x: x.unwrap_numpy(), dtype)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_ndonnx_as_an_onnx_model(dtype: str) -> None:
    import ndonnx
    import onnxruntime

    x = ndonnx.argument(shape=(2,), dtype=getattr(ndonnx, dtype))
    clipped, total = clip_by_global_norm([x], 2.5)
    model = ndonnx.build({"x": x}, {"clipped": clipped[0], "total": total})
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])

    for values in EXTREMES:
        array = np.array(values, dtype)
        got, norm = session.run(["clipped", "total"], {"x": array})
        expected, alone = clip_by_global_norm([array], 2.5)
        np.testing.assert_array_max_ulp(norm, alone, 1)
        np.testing.assert_array_max_ulp(got, expected[0], 2)
