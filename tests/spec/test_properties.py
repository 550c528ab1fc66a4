"""Properties that hold for any gradients, drawn by the strategies of the array API's own test suite."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.array_api import make_strategies_namespace

from gradclip_spec import clip_by_global_norm, clip_by_norm, clip_by_value, global_norm

strict = pytest.importorskip("array_api_strict")
xps = make_strategies_namespace(strict)
finite = {"allow_nan": False, "allow_infinity": False}


@st.composite
def gradients(draw: Any, **elements: Any) -> Any:
    """A list of arrays of one dtype, some empty, and None."""
    dtype = draw(st.sampled_from([strict.float32, strict.float64]))
    shapes = xps.array_shapes(min_dims=0, min_side=0, max_side=7)
    return draw(st.lists(st.none() | xps.arrays(dtype, shapes, elements=elements), min_size=1, max_size=4))


thresholds = st.floats(0, 1e30) | st.sampled_from([0.0, 1e-300, 1e300, math.inf])
quick = settings(derandomize=True, deadline=None, max_examples=60)


def flat(arrays: Any) -> np.ndarray[Any, Any]:
    """All elements of all arrays in float64."""
    parts = [np.asarray(array, dtype=np.float64).ravel() for array in arrays if array is not None]
    return np.concatenate([*parts, np.empty(0)])


@quick
@given(gradients(**finite), thresholds)
def test_clipped_norm_is_within_the_threshold(arrays: Any, threshold: float) -> None:
    clipped, total = clip_by_global_norm(arrays, threshold)
    precision = float(np.finfo(str(total.dtype).rpartition(".")[2]).eps)
    # A subnormal element is off by up to half its own last place, however small the others are.
    smallest = float(np.finfo(str(total.dtype).rpartition(".")[2]).smallest_subnormal)
    slack = smallest * math.sqrt(flat(arrays).size)

    # Computed in float64, where the scaled-down elements cannot overflow but their squares may.
    largest = float(np.max(np.abs(flat(clipped)), initial=0.0)) or 1.0
    norm = largest * math.sqrt(float(np.sum((flat(clipped) / largest) ** 2)))
    assert norm <= threshold * (1 + 4 * precision) + slack or threshold >= float(total)


@quick
@given(gradients(**finite), thresholds)
def test_what_is_not_above_the_threshold_comes_back_itself(arrays: Any, threshold: float) -> None:
    clipped, total = clip_by_global_norm(arrays, threshold)

    if float(total) < threshold:
        assert all(new is old for new, old in zip(clipped, arrays, strict=True))
    assert [None if a is None else (a.shape, a.dtype) for a in clipped] == [
        None if a is None else (a.shape, a.dtype) for a in arrays
    ]


@quick
@given(gradients(**finite), thresholds)
def test_signs_and_order_of_magnitudes_are_kept(arrays: Any, threshold: float) -> None:
    before, after = flat(arrays), flat(clip_by_global_norm(arrays, threshold)[0])

    assert np.all(before * np.sign(after) >= 0)
    assert np.all(np.abs(after) <= np.abs(before))
    order = np.argsort(np.abs(before), kind="stable")
    assert np.all(np.diff(np.abs(after)[order]) >= 0)


@quick
@given(gradients(min_value=-(2.0**60), max_value=2.0**60), st.integers(-20, 20))
def test_powers_of_two_scale_through(arrays: Any, exponent: int) -> None:
    factor = 2.0**exponent
    total = float(global_norm(arrays))
    scaled = float(global_norm([None if array is None else array * factor for array in arrays]))

    # Each element may lose up to one last place of the subnormal numbers, and the norm be rounded once more.
    lost = 2.0**-149 * max(factor, 1) * math.sqrt(flat(arrays).size)
    assert abs(scaled - total * factor) <= float(np.spacing(np.float32(scaled))) + lost


@quick
@given(gradients(), thresholds)
def test_each_norm_alone_is_a_global_norm_of_one(arrays: Any, threshold: float) -> None:
    for array, clipped in zip(arrays, clip_by_norm(arrays, threshold), strict=True):
        alone, _ = clip_by_global_norm(array, threshold)

        assert (array is None) == (clipped is None)
        if array is not None:
            assert np.array_equal(np.asarray(alone), np.asarray(clipped), equal_nan=True)


@quick
@given(gradients(), st.floats(0, 2.0**100, width=32), st.floats(0, 2.0**100, width=32))
def test_value_is_minimum_of_maximum(arrays: Any, one: float, other: float) -> None:
    lower, upper = min(-one, other), max(-one, other)
    clipped = clip_by_value(arrays, upper, lower)

    assert np.array_equal(flat(clipped), np.minimum(np.maximum(flat(arrays), lower), upper), equal_nan=True)


@quick
@given(gradients(), thresholds, st.sampled_from([0.5, 1, 2, 3, math.inf]))
def test_nothing_comes_back_as_if_nan_had_not_been_there(arrays: Any, threshold: float, norm_type: float) -> None:
    clipped, total = clip_by_global_norm(arrays, threshold, norm_type=norm_type)

    if np.any(np.isnan(flat(arrays))):
        assert math.isnan(float(total))
        assert np.all(np.isnan(flat(clipped)))
