"""Check the operations on inputs with a known exact answer, on every library."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from gradclip_spec import (
    clip_by_average_norm,
    clip_by_block_rms,
    clip_by_global_norm,
    clip_by_norm,
    clip_by_value,
    clip_per_example,
    clip_unitwise,
    global_norm,
)

#: The smallest subnormal numbers of dtypes that are narrower than a Python float.
SMALLEST = {"float16": 2.0**-24, "bfloat16": 2.0**-133, "float32": 2.0**-149}

#: For each dtype, a number `n` such that `2**-n` bounds the relative error of rounding to it.
SIGNIFICANT = {"float16": 11, "bfloat16": 8, "float32": 23, "float64": 52}


def assert_equal(backend: Any, array: Any, expected: Any, dtype: str) -> None:
    """Assert the library, the dtype, the shape and every value of an array. NaN equals NaN."""
    __tracebackhide__ = True
    assert isinstance(array, backend.array_type), f"a {type(array)} came back, not an array of {backend.name}"
    values = backend.read(array)
    assert values.dtype.name == dtype, f"the dtype is {values.dtype.name}, not {dtype}"
    wanted = np.array(expected, values.dtype)
    assert values.shape == wanted.shape, f"the shape is {values.shape}, not {wanted.shape}"
    assert np.array_equal(values.astype(float), wanted.astype(float), equal_nan=True), f"{values} is not {wanted}"


def clip_together(arrays: list[Any], threshold: float, **options: Any) -> list[Any]:
    """Return the arrays, clipped by their global norm."""
    clipped: list[Any] = clip_by_global_norm(arrays, threshold, **options)[0]
    return clipped


EMPTY, LONG = np.zeros((0, 3)), np.ones(1 << 14)
#: A matrix of four elements and a vector of sixteen, with the same norm, a smaller array and one without elements.
AVERAGED = [[[3.0, -4.0], [0.0, 0.0]], [3.0, -4.0, *[0.0] * 14], None, [-0.5], []]
OF_FOUR = [[[1.5, -2.0], [0.0, 0.0]], *AVERAGED[1:]]
PARAMETERS = [[[5.0, 0.0], [0.0, -20.0], [0.0, 0.0]], None, [0.0, 5.0], [[3.0, 4.0]]]
#: A clip, arrays, and what becomes of them. All numbers are exact in every dtype, and so are their norms.
EXACT: dict[str, tuple[Callable[[list[Any]], list[Any]], list[Any], list[Any]]] = {
    "value": (lambda x: clip_by_value(x, 1.0), [[-3.0, -1.0, 0.5, 2.0]], [[-1.0, -1.0, 0.5, 1.0]]),
    "value, with a lower bound": (lambda x: clip_by_value(x, 1.0, 0.25), [[-3.0, 0.5, 2.0]], [[0.25, 0.5, 1.0]]),
    "value, of special values": (
        lambda x: clip_by_value(x, 1.0),
        [[math.nan, math.inf, -math.inf, 0.5]],
        [[math.nan, 1.0, -1.0, 0.5]],
    ),
    "value, by a rounded bound": (lambda x: clip_by_value(x, 0.1), [[1.0, -1.0]], [[0.1, -0.1]]),
    "value, without elements": (lambda x: clip_by_value(x, 5.0), [EMPTY], [EMPTY]),
    "norm": (lambda x: clip_by_norm(x, 2.5), [[3.0, 4.0], [0.75, -1.0]], [[1.5, 2.0], [0.75, -1.0]]),
    "norm, with eps": (lambda x: clip_by_norm(x, 3.0, eps=1.0), [[3.0, 4.0]], [[1.5, 2.0]]),
    "norm, at the threshold with eps": (lambda x: clip_by_norm(x, 8.0, eps=3.0), [[3.0, 4.0]], [[3.0, 4.0]]),
    "norm, to zero": (lambda x: clip_by_norm(x, 0.0), [[3.0, -4.0]], [[0.0, 0.0]]),
    "norm, to infinity": (lambda x: clip_by_norm(x, math.inf), [[3.0, math.inf]], [[3.0, math.inf]]),
    "norm, of zeros": (lambda x: clip_by_norm(x, 0.0, norm_type=3), [[0.0]], [[0.0]]),
    "norm, without elements": (lambda x: clip_by_norm(x, 0.0, eps=1e-6), [EMPTY], [EMPTY]),
    "largest, without elements": (lambda x: clip_by_norm(x, 5.0, norm_type=math.inf), [EMPTY], [EMPTY]),
    "global norm": (
        lambda x: clip_together(x, 4.5),
        [[2.0, -4.0], None, [[5.0], [6.0]]],
        [[1.0, -2.0], None, [[2.5], [3.0]]],
    ),
    "global norm, with eps": (lambda x: clip_together(x, 4.0, eps=3.0), [[3.0, 4.0]], [[1.5, 2.0]]),
    "global norm, at the threshold": (lambda x: clip_together(x, 5.0), [[3.0, 4.0]], [[3.0, 4.0]]),
    "global norm, of zeros": (lambda x: clip_together(x, 0.0), [[0.0, 0.0]], [[0.0, 0.0]]),
    "global norm, of zeros and above": (lambda x: clip_together(x, 5e-324), [[0.0, 0.0]], [[0.0, 0.0]]),
    "global norm, without axes": (lambda x: clip_together(x, 5.0), [EMPTY, -10.0], [EMPTY, -5.0]),
    # Large and small arrays are not joined.
    "global norm, of large arrays": (lambda x: clip_together(x, 64.0), [EMPTY, LONG], [EMPTY, LONG / 2]),
    "block RMS": (lambda x: clip_by_block_rms(x, 1.25), AVERAGED, OF_FOUR),
    "block RMS, to zero": (lambda x: clip_by_block_rms(x, 0.0), [[3.0, -4.0], EMPTY], [[0.0, -0.0], EMPTY]),
    "block RMS, to infinity": (lambda x: clip_by_block_rms(x, math.inf), AVERAGED, AVERAGED),
    "average norm": (lambda x: clip_by_average_norm(x, 0.625), AVERAGED, OF_FOUR),
    # The norms of the examples are 5, 2.5 and 0.
    "examples": (
        lambda x: clip_per_example(x, 2.5),
        [[[3.0, 0.0], [1.5, 0.0], [0.0, 0.0]], None, [-4.0, 2.0, 0.0]],
        [[3.0, 0.0], None, 0.0],
    ),
    # The norms of the units are 5, 5, 2.5, 5 and 2, and those of their parameters 5, 20, 0, 5 and 5.
    "units": (
        lambda x: [*clip_unitwise(x[:4], x[4:], 0.5, eps=2.5), *x[4:]],
        [[[3.0, -4.0], [3.0, -4.0], [1.5, 2.0]], None, [3.0, -4.0], [[0.0, 2.0]], *PARAMETERS],
        [[[1.5, -2.0], [3.0, -4.0], [0.75, 1.0]], None, [1.5, -2.0], [[0.0, 2.0]], *PARAMETERS],
    ),
}


@pytest.mark.parametrize("name", EXACT)
def test_exact_results(backend: Any, name: str) -> None:
    clip, given, expected = EXACT[name]
    for dtype in backend.dtypes:
        arrays = [None if values is None else backend.array(values, dtype) for values in given]
        clipped = clip(arrays)

        for result, array, values, wanted in zip(clipped, arrays, given, expected, strict=True):
            if values is None:
                assert result is None
                continue
            assert_equal(backend, result, wanted, dtype)
            assert_equal(backend, array, values, dtype)
            # An array without anything to clip is not copied.
            if backend.eager and isinstance(values, list) and values and values == wanted:
                assert result is array


@pytest.mark.parametrize(
    ("given", "expected"),
    [([[2.0, -4.0], None, [[5.0], [6.0]]], 9.0), ([[3.0, 4.0]], 5.0), ([EMPTY, -10.0], 10.0), ([[0.0, 0.0]], 0.0)],
)
def test_exact_norms(backend: Any, given: list[Any], expected: float) -> None:
    for dtype in backend.dtypes:
        arrays = [None if values is None else backend.array(values, dtype) for values in given]
        for total in (global_norm(arrays), clip_by_global_norm(arrays, 1.0)[1]):
            assert_equal(backend, total, expected, "float64" if dtype == "float64" else "float32")


@pytest.mark.only_where(lambda backend: backend.keeps_subnormals)
def test_value_rounds_a_subnormal_bound_once(backend: Any) -> None:
    # The bound lies just above the middle between two numbers. If it were first rounded to that middle, a second
    # rounding would give the even number.
    for dtype in set(backend.dtypes) & SMALLEST.keys():
        smallest = SMALLEST[dtype]
        clipped = clip_by_value(backend.array([8 * smallest, -8 * smallest], dtype), (2.5 + 2.0**-10) * smallest)

        assert_equal(backend, clipped, [3 * smallest, -3 * smallest], dtype)


@pytest.mark.thorough(sample=12)
@pytest.mark.parametrize("norm_type", [0.5, 1, 2, 3, 100, math.inf])
def test_zero_norm_has_no_sign(backend: Any, norm_type: float) -> None:
    for dtype in backend.dtypes:
        for zeros in ([0.0, 0.0], [-0.0], [-0.0, 0.0]):
            array = backend.array(zeros, dtype)
            for norm in (global_norm(array, norm_type=norm_type), clip_by_global_norm([array], 1.0)[1]):
                assert math.copysign(1.0, float(backend.read(norm))) == 1.0


@pytest.mark.parametrize(("upper", "lower"), [(1.0, 0.0), (0.0, -1.0)])
def test_value_keeps_the_sign_of_a_zero_within_the_bounds(backend: Any, upper: float, lower: float) -> None:
    for dtype in backend.dtypes:
        # Both bounds clip an element, so that the array itself is not returned.
        clipped = backend.read(clip_by_value(backend.array([-0.0, 0.0, 3.0, -3.0], dtype), upper, lower))
        assert np.signbit(clipped).tolist() == [True, False, False, lower < 0]
        assert clipped.astype(float).tolist() == [0.0, 0.0, upper, lower]


@pytest.mark.parametrize(
    ("norm_type", "expected"),
    [(1, 7.0), (2, 5.0), (3, 91 ** (1 / 3)), (0.5, (3**0.5 + 2) ** 2), (1e300, 4.0), (math.inf, 4.0)],
)
def test_norm_types(backend: Any, norm_type: float, expected: float) -> None:
    for dtype in backend.dtypes:
        total = backend.read(
            global_norm([backend.array([3.0, 0.0], dtype), backend.array(-4.0, dtype)], norm_type=norm_type)
        )

        # Powers and roots have an error of a few roundings, but the norms 7, 5 and 4 are exact.
        tolerance = 0 if expected in (7.0, 5.0, 4.0) else 8 * float(np.finfo(total.dtype).eps)
        assert abs(float(total) - expected) <= tolerance * expected


#: Exponents near both ends of the range. A quarter of a number with such an exponent is still normal.
ENDS = {"float16": (14, -10), "bfloat16": (126, -120), "float32": (126, -120), "float64": (1022, -1018)}


@pytest.mark.thorough(sample=28)
@pytest.mark.parametrize("norm_type", [0.5, 1, 1.5, 2, 3, 100, math.inf])
@pytest.mark.parametrize("end", [0, 1])
def test_norms_at_the_ends_of_the_range(backend: Any, end: int, norm_type: float) -> None:
    for dtype in backend.dtypes:
        norm = 2.0 ** ENDS[dtype][end]
        arrays = [backend.array([norm, 0.0], dtype), backend.array([], dtype)]
        clipped, total = clip_by_global_norm(arrays, norm / 2, norm_type=norm_type)

        by_norm = clip_by_norm(arrays[0], norm / 2, norm_type=norm_type)
        if backend.exact_powers or norm_type in (1, 2, math.inf):
            assert float(backend.read(total)) == norm
            assert_equal(backend, clipped[0], [norm / 2, 0.0], dtype)
            assert_equal(backend, by_norm, [norm / 2, 0.0], dtype)
        else:
            # The power and the root are two ulp off each, and the root divides by p.
            bound = 4 / norm_type * 2.0 ** -SIGNIFICANT["float64" if backend.has_float64 else "float32"]
            bound += 2.0 ** -SIGNIFICANT[dtype]
            np.testing.assert_allclose(float(backend.read(total)), norm, rtol=bound)
            for result in (clipped[0], by_norm):
                np.testing.assert_allclose(backend.read(result).astype(float), [norm / 2, 0.0], rtol=bound)
        # A norm that is too large by an ulp is above the threshold.
        for threshold in (norm, 2.0 ** ENDS["float64"][0]):
            if backend.exact_powers or threshold > norm:
                assert_equal(backend, clip_by_norm(arrays[0], threshold, norm_type=norm_type), [norm, 0.0], dtype)


@pytest.mark.parametrize("norm_type", [0.5, 1, 1.5, 2, 3, 100, math.inf])
def test_subnormal_norms(norm_type: float) -> None:
    array = np.array([1e-309, 0.0])
    clipped, total = clip_by_global_norm([array], 5e-310, norm_type=norm_type)
    # The result is exact up to the spacing of subnormal numbers.
    assert float(total) == pytest.approx(1e-309, rel=0, abs=5e-324)
    np.testing.assert_allclose(clipped[0], [5e-310, 0.0], rtol=0, atol=5e-324)
    (clipped,), _ = clip_by_global_norm([array], 2.0**-960, norm_type=norm_type, eps=1e-305)
    assert clipped.tolist() == array.tolist()


# float32 does not hold the norm.
@pytest.mark.only_where(lambda backend: backend.has_float64)
def test_norm_far_above_all_elements(backend: Any) -> None:
    # A hundred ones, each to the power of 0.01, sum to 100. The norm is 100 to the power of 100, or 10**200.
    for dtype in backend.dtypes:
        ones = backend.array(np.ones(100), dtype)
        clipped = backend.read(clip_by_norm(ones, 1e197, norm_type=0.01)).astype(float)
        # The hundredth power multiplies a rounding error by a hundred.
        np.testing.assert_allclose(clipped, 1e-3, rtol=2.0**-45 + 2.0 ** -SIGNIFICANT[dtype])


def test_each_array_of_a_mixed_list_keeps_its_dtype(backend: Any) -> None:
    narrow, wide = backend.dtypes[0], backend.dtypes[-1]
    clipped, total = clip_by_global_norm([backend.array([3.0], narrow), backend.array([4.0], wide)], 2.5)

    assert_equal(backend, clipped[0], [1.5], narrow)
    assert_equal(backend, clipped[1], [2.0], wide)
    assert float(backend.read(total)) == 5.0


def test_threshold_of_minus_zero_gives_positive_zeros(backend: Any) -> None:
    clipped = backend.read(clip_by_norm(backend.array([3.0, 4.0]), -0.0))
    assert clipped.tolist() == [0.0, 0.0]
    assert not np.signbit(clipped).any()


@pytest.mark.thorough(sample=8)
@pytest.mark.parametrize("norm_type", [1, 2, 2.5, math.inf])
def test_nan_and_infinity_decide_the_norm(backend: Any, norm_type: float) -> None:
    for dtype in backend.dtypes:
        arrays = [backend.array([math.nan, 1.0], dtype), backend.array([2.0], dtype)]
        clipped, total = clip_by_global_norm(arrays, 1.0, norm_type=norm_type)

        assert_equal(backend, clipped[0], [math.nan, math.nan], dtype)
        assert_equal(backend, clipped[1], [math.nan], dtype)
        assert math.isnan(float(backend.read(total)))

        arrays = [backend.array([-math.inf, 1.0], dtype), backend.array([2.0], dtype)]
        clipped, total = clip_by_global_norm(arrays, 1.0, norm_type=norm_type)

        assert_equal(backend, clipped[0], [math.nan, 0.0], dtype)
        assert_equal(backend, clipped[1], [0.0], dtype)
        assert float(backend.read(total)) == math.inf
        assert_equal(backend, clip_by_norm(arrays[0], 1.0, norm_type=norm_type, eps=1e-6), [math.nan, 0.0], dtype)


def test_norm_of_excluded_arrays_is_zero(backend: Any) -> None:
    array = backend.array([3.0])
    clipped, total = clip_by_global_norm([array, None], 1.0, need_clip=[False, False])

    assert clipped[0] is array
    assert_equal(backend, total, 0.0, "float32")
    assert clip_by_norm([array, None], 1.0, need_clip=[False, False])[0] is array


def test_norm_of_an_empty_list_is_a_numpy_zero() -> None:
    for nothing in ([], None, [None], {}):
        clipped, total = clip_by_global_norm(nothing, 1.0)

        assert clipped == nothing
        assert (total.dtype, total.shape, float(total)) == (np.float32, (), 0.0)


# The arrays have 9, 4, 1 and 2 of 16 elements.
@pytest.mark.thorough(sample=4)
@pytest.mark.parametrize(("layers", "thresholds"), [("equal", [2.0, 2.0, 2.0]), ("by size", [3.0, 2.0, 1.0])])
def test_layers_of_examples_have_thresholds_of_their_own(layers: Any, thresholds: list[float], backend: Any) -> None:
    for dtype in backend.dtypes:
        first = backend.array([[8.0, *[0.0] * 8], [0.0, 0.5, *[0.0] * 7]], dtype)
        second = backend.array([[[0.5, 0.0], [0.0, 0.0]], [[0.0, -4.0], [0.0, 0.0]]], dtype)
        third, fourth = backend.array([[0.0], [6.0]], dtype), backend.array([[0.0, 0.25], [0.0, 0.0]], dtype)
        sums = clip_per_example([first, None, second, third, fourth], 4.0, layers=layers)

        assert sums[1] is None
        assert_equal(backend, sums[0], [thresholds[0], 0.5, *[0.0] * 7], dtype)
        assert_equal(backend, sums[2], [[0.5, -thresholds[1]], [0.0, 0.0]], dtype)
        assert_equal(backend, sums[3], [thresholds[2]], dtype)
        assert_equal(backend, sums[4], [0.0, 0.25], dtype)


def test_layers_of_examples_may_be_empty() -> None:
    empty, full = np.zeros((1, 0)), np.array([[3.0, 4.0]])

    assert [one.tolist() for one in clip_per_example([empty, full], 2.5, layers="by size")] == [[], [1.5, 2.0]]
    assert clip_per_example([empty], math.inf, layers="by size")[0].tolist() == []
    with pytest.raises(ValueError, match="layers is None, 'equal' or 'by size'"):
        clip_per_example([full], 1.0, layers="uniform")  # type: ignore[arg-type]


def test_examples_need_one_first_axis() -> None:
    with pytest.raises(ValueError, match="counts the examples"):
        clip_per_example([np.ones((2, 3)), np.ones((3, 3))], 1.0)
    with pytest.raises(ValueError, match="counts the examples"):
        clip_per_example(np.array(1.0), 1.0)
    assert clip_per_example(np.zeros((0, 3)), 1.0).tolist() == [0.0, 0.0, 0.0]
    assert clip_per_example([], 1.0) == []


def test_axis_counts_the_units() -> None:
    matrix, weight = np.array([[3.0, 0.0], [-4.0, 1.0]]), np.array([[5.0, 2.0], [0.0, 0.0]])

    assert clip_unitwise(matrix, weight, 0.5, axis=-1).tolist() == [[1.5, 0.0], [-2.0, 1.0]]
    assert clip_unitwise(matrix.T, weight.T, 0.5).tolist() == [[1.5, -2.0], [0.0, 1.0]]
    # A filter is one unit, whatever its shape.
    filters, weights = np.full((2, 2, 2), 4.0), np.stack([np.full((2, 2), 1.0), np.full((2, 2), 8.0)])
    assert clip_unitwise(filters, weights, 1.0).tolist() == [[[1.0, 1.0]] * 2, [[4.0, 4.0]] * 2]


def test_units_need_a_parameter_of_their_shape() -> None:
    ones = np.ones((2, 3))
    for parameters in ([], [None], [np.ones((3, 2))], [ones, ones]):
        with pytest.raises(ValueError, match="`params` must have"):
            clip_unitwise([ones], parameters, 1.0)
    with pytest.raises(ValueError, match="clip_factor"):
        clip_unitwise([ones], [ones], -1.0)
    with pytest.raises(ValueError, match="eps"):
        clip_unitwise([ones], [ones], 1.0, eps=-1.0)
    assert ones.tolist() == [[1.0] * 3] * 2
    assert clip_unitwise([], [], 1.0) == []


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_no_square_of_a_unit_leaves_the_range(dtype: str) -> None:
    limits = np.finfo(dtype)
    large, small = (np.array([3 * unit, -4 * unit], dtype) for unit in (limits.max / 8, limits.smallest_normal))

    assert clip_unitwise(large, large, 0.5).tolist() == (large / 2).tolist()
    assert clip_unitwise(small, small, 0.5, eps=0.0).tolist() == (small / 2).tolist()
    assert clip_unitwise(np.zeros(2, dtype), np.zeros(2, dtype), 0.0, eps=0.0).tolist() == [0.0, 0.0]


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_the_norm_of_a_unit_may_leave_the_range(dtype: str) -> None:
    power = 2.0 ** (np.finfo(dtype).maxexp - 1)
    largest, small = np.full(4, power, dtype), np.array([1.0, 0.0, 0.0, 0.0], dtype)

    assert clip_unitwise(largest, largest, 0.5).tolist() == (largest / 2).tolist()
    assert clip_unitwise(largest, largest, 1.0).tolist() == largest.tolist()
    assert clip_unitwise(largest, largest, 0.0).tolist() == [0.0] * 4
    assert clip_unitwise(small, largest, 0.5).tolist() == small.tolist()
    assert clip_unitwise(largest, small, 1.0).tolist() == [0.5] * 4
    infinite = np.array([np.inf, 0.0, 0.0, 0.0], dtype)
    assert clip_unitwise(largest, infinite, 0.5).tolist() == largest.tolist()
    np.testing.assert_array_equal(clip_unitwise(infinite, largest, 0.5), np.array([np.nan, 0.0, 0.0, 0.0], dtype))
