"""Check properties that hold for any gradients of any library, on gradients drawn by Hypothesis."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.array_api import make_strategies_namespace

from gradclip_spec import clip_by_global_norm, clip_by_norm, clip_by_value

pytestmark = pytest.mark.thorough(sample=2)

strict = pytest.importorskip("array_api_strict")
xps = make_strategies_namespace(strict)
thresholds = st.floats(0, 1e30) | st.sampled_from([0.0, 1e-300, 1e300, math.inf])

#: For each dtype: the distance from 1 to the next number, the smallest number above 0, and the largest number to draw.
FORMATS = {
    "float16": (2.0**-10, 2.0**-24, 65504.0),
    "bfloat16": (2.0**-7, 2.0**-133, 2.0**127),
    "float32": (2.0**-23, 2.0**-149, 2.0**127),
    "float64": (2.0**-52, 2.0**-1074, 2.0**1023),
}


def check_property(backend: Any, *strategies: Any) -> Callable[[Callable[..., None]], None]:
    """Check a property on drawn examples. Use fewer examples if each is compiled or makes a graph."""
    count = 40 if backend.eager else 8

    def try_function(function: Callable[..., None]) -> None:
        settings(derandomize=True, deadline=None, max_examples=count, database=None)(given(*strategies)(function))()

    return try_function


@st.composite
def draw_gradients(draw: Any, backend: Any, finite: bool = False) -> Any:
    """Draw a list of arrays of one dtype, some empty, and None."""
    dtype = draw(st.sampled_from(backend.dtypes))
    limit = FORMATS[dtype][2]
    drawn_in = {"width": 64 if dtype == "float64" else 32, "allow_subnormal": backend.keeps_subnormals}
    elements = st.floats(-limit, limit, **drawn_in)
    if not finite:
        elements |= st.sampled_from([math.nan, math.inf, -math.inf])
    shapes = (
        xps.array_shapes(min_dims=0, min_side=0, max_side=7) if backend.eager else st.sampled_from([(), (0, 2), (3,)])
    )
    arrays = xps.arrays(strict.float64 if dtype == "float64" else strict.float32, shapes, elements=elements)
    drawn = draw(st.lists(st.none() | arrays, min_size=1, max_size=4 if backend.eager else 2))
    return dtype, [None if array is None else backend.array(np.asarray(array), dtype) for array in drawn]


def flatten(backend: Any, arrays: Any) -> np.ndarray[Any, Any]:
    """Return all elements of all arrays in float64."""
    parts = [backend.read(array).astype(np.float64).ravel() for array in arrays if array is not None]
    return np.concatenate([*parts, np.empty(0)])


def read_number(backend: Any, total: Any) -> float:
    """Read a norm. The norm of an empty list is a NumPy scalar."""
    return float(total if isinstance(total, np.ndarray) else backend.read(total))


def test_clip_by_global_norm_scales_down_to_the_threshold(backend: Any) -> None:
    @check_property(backend, draw_gradients(backend, finite=True), thresholds)
    def check(drawn: Any, threshold: float) -> None:
        dtype, arrays = drawn
        clipped, total = clip_by_global_norm(arrays, threshold)
        before, after = flatten(backend, arrays), flatten(backend, clipped)
        norm_before = read_number(backend, total)

        precision, smallest, _ = FORMATS[dtype]
        # The error of a subnormal element is up to half of its last place, whatever the other elements are.
        slack = smallest * math.sqrt(before.size)
        # Compute the norm after the clip in float64, from scaled elements: unscaled squares could overflow.
        largest = float(np.max(np.abs(after), initial=0.0)) or 1.0
        norm = largest * math.sqrt(float(np.sum((after / largest) ** 2)))
        assert norm <= threshold * (1 + 4 * precision) + slack or threshold >= norm_before

        # Without float64 the threshold is rounded to float32, too.
        if norm_before * (1.0 if backend.has_float64 else 1 + 2.0**-22) < threshold:
            assert np.array_equal(after, before)
            assert not backend.eager or all(new is old for new, old in zip(clipped, arrays, strict=True))
        assert [None if x is None else (x.shape, x.dtype) for x in clipped] == [
            None if x is None else (x.shape, x.dtype) for x in arrays
        ]

        assert np.all(before * np.sign(after) >= 0)
        assert np.all(np.abs(after) <= np.abs(before))
        order = np.argsort(np.abs(before), kind="stable")
        assert np.all(np.diff(np.abs(after)[order]) >= 0)


def test_clip_by_norm_equals_clip_by_global_norm_of_each_array(backend: Any) -> None:
    @check_property(backend, draw_gradients(backend), thresholds)
    def check(drawn: Any, threshold: float) -> None:
        _, arrays = drawn
        for array, clipped in zip(arrays, clip_by_norm(arrays, threshold), strict=True):
            alone, _ = clip_by_global_norm(array, threshold)

            assert (array is None) == (clipped is None)
            if array is not None:
                assert np.array_equal(flatten(backend, [alone]), flatten(backend, [clipped]), equal_nan=True)


def test_value_is_minimum_of_maximum(backend: Any) -> None:
    bounds = st.floats(0, 2.0**100, width=32, allow_subnormal=backend.keeps_subnormals)

    @check_property(backend, draw_gradients(backend), bounds, bounds)
    def check(drawn: Any, one: float, other: float) -> None:
        dtype, arrays = drawn
        lower, upper = min(-one, other), max(-one, other)
        clipped = clip_by_value(arrays, upper, lower)

        with np.errstate(over="ignore"):
            # The bounds are rounded to the gradients' dtype, too.
            expected = backend.array(np.minimum(np.maximum(flatten(backend, arrays), lower), upper), dtype)
        assert np.array_equal(flatten(backend, clipped), flatten(backend, [expected]), equal_nan=True)
