"""Compare norms and elements with exact rational arithmetic."""

from __future__ import annotations

import collections
import decimal
import math
from collections.abc import Iterable
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from gradclip_spec import clip_by_global_norm, clip_by_norm, global_norm

#: For each dtype: the bits of the significand, and the smallest normal exponent.
FORMATS = {"float16": (11, -14), "bfloat16": (8, -126), "float32": (24, -126), "float64": (53, -1022)}
#: The error budgets of a norm and of an element, in ulp.
OF_NORM, OF_ELEMENT = 1.0, 1.5

has_float64 = pytest.mark.only_where(lambda backend: "float64" in backend.dtypes)


def compute_exact_norm(values: np.ndarray[Any, Any]) -> Fraction:
    """Return the Euclidean norm with many more digits than a float has."""
    mantissas, exponents = np.frexp(values.astype(np.float64).ravel())
    place = int(exponents.min()) - 53 if values.size else 0
    wholes = (
        int(m * 2**53) << int(e) - 53 - place for m, e in zip(mantissas.tolist(), exponents.tolist(), strict=True)
    )
    square = sum(whole * whole for whole in wholes)
    return Fraction(math.isqrt(square << 400), 1 << 200) * Fraction(2) ** place


def compute_exact_p_norm(values: Iterable[Fraction | float], norm_type: float) -> Fraction:
    """Return another norm with 50 digits."""
    with decimal.localcontext(decimal.Context(prec=50)):
        p = _convert_to_decimal(norm_type)
        counts = collections.Counter(values).items()
        return Fraction(sum(count * _convert_to_decimal(abs(x)) ** p for x, count in counts) ** (1 / p))


def _convert_to_decimal(x: Any) -> Decimal:
    return Decimal(Fraction(x).numerator) / Fraction(x).denominator


def measure_distance(got: float, exact: Fraction, dtype: str) -> float:
    """Return the distance from the exact value, in units of its last place."""
    precision, smallest = FORMATS[dtype]
    exponent = smallest
    if exact:
        numerator, denominator = abs(exact).as_integer_ratio()
        exponent = numerator.bit_length() - denominator.bit_length()
        exponent -= Fraction(2) ** exponent > abs(exact)
    return float(abs(Fraction(got) - exact) / Fraction(2) ** (max(exponent, smallest) - precision + 1))


def check(backend: Any, values: np.ndarray[Any, Any], dtype: str, threshold: float | None = None) -> None:
    """Assert that the norm and a sample of the clipped elements are within their budgets."""
    __tracebackhide__ = True
    array = backend.array(values, dtype)
    values = backend.read(array)
    norm = compute_exact_norm(values)
    threshold = float(norm) * 0.3 if threshold is None else threshold
    norm_dtype = "float64" if dtype == "float64" else "float32"
    error = measure_distance(float(backend.read(global_norm(array))), norm, norm_dtype)
    # A sum in any order may cost the last bit of float64 once more.
    more = 1.0 if dtype == "float64" and not backend.exact_powers else 0.0
    assert error <= OF_NORM + more, f"the norm has an error of {error} ulp"

    clipped = backend.read(clip_by_global_norm([array], threshold)[0][0]).ravel().astype(np.float64)
    flat = values.ravel().astype(np.float64)
    for index in range(0, flat.size, max(flat.size // 64, 1)):
        exact = Fraction(float(flat[index])) * Fraction(threshold) / norm
        error = measure_distance(float(clipped[index]), exact, dtype)
        assert error <= OF_ELEMENT + 1.5 * more, f"element {index} has an error of {error} ulp"


@pytest.mark.thorough(sample=36)
@pytest.mark.parametrize("size", [1, 2, 17, 1000, 1025, 5000])
@pytest.mark.parametrize("kind", ["normal", "constant", "heavy-tailed", "ramp"])
def test_ordinary_gradients(backend: Any, kind: str, size: int) -> None:
    if backend.name in ("jax", "dask") and size not in (1, 1025):
        pytest.skip("each size needs its own compilation or its own graph")
    random = np.random.default_rng(size)
    values = {
        "normal": random.standard_normal(size),
        "constant": np.full(size, 0.1),
        "heavy-tailed": np.clip(random.standard_cauchy(size), -1e4, 1e4),
        "ramp": np.linspace(0.001, 1, size),
    }[kind]
    for dtype in backend.dtypes:
        check(backend, values, dtype)


def bound_float32_powers(norm_type: float, count: int) -> float:
    """Return how many more ulp a p-norm may be off if its powers are computed in float32.

    A library's power has an error of at most an ulp, or `2**-23` of it. The root divides the relative error of a sum of
    powers by p, and its own correction computes another power. The library also gets p rounded to float32. A change d
    of p changes the norm of n equal elements, the worst case, by the factor `n**(d / p**2)`. An ulp of the norm is at
    least `2**-24` of it.
    """
    if norm_type == 1:
        return 0.0
    rounding = abs(float(np.float32(norm_type)) - norm_type)
    return (2 * 2.0**-23 / norm_type + math.log(count) * rounding / norm_type**2) * 2.0**24


def bound_wrong_powers(norm_type: float) -> float:
    """Return how many more ulp a p-norm in float64 may be off if the library's powers are two ulp off.

    Products and roots, which are right, make the powers for a p that is a multiple of a half, up to 8. Other powers of
    the elements, and the power in the root's correction, are each off by up to two units of `2**-52`. The root divides
    this by p. An ulp of the norm is at least `2**-53` of it.
    """
    return 1.0 if (2 * norm_type).is_integer() and norm_type <= 8 else 2 * (2 + 2) / norm_type


@pytest.mark.thorough(sample=2)
@pytest.mark.parametrize("norm_type", [1, 1.1, 1.5, 3, 10, 40, 100, 1500])
def test_other_norms(backend: Any, norm_type: float) -> None:
    random = np.random.default_rng(3)
    kinds = [random.standard_normal(400), np.full(3000, 0.7), random.standard_cauchy(7), np.array([3.0, 4.0])]
    # Dividing by the largest element rounds all other elements in one direction. For p = 1.5, the norm would be rounded
    # in this direction, too.
    kinds.append(np.array([1.4474175764791228, *[0.9505798915973116] * 500]))
    for dtype in backend.dtypes:
        for values in kinds:
            array = backend.array(values, dtype)
            elements = [Fraction(float(value)) for value in backend.read(array)]
            norm = compute_exact_p_norm(elements, norm_type)
            total_dtype = "float64" if dtype == "float64" else "float32"
            total = backend.read(global_norm(array, norm_type=norm_type))
            more = 0.0 if backend.has_float64 else bound_float32_powers(norm_type, len(elements))
            if not backend.exact_powers and dtype == "float64":
                more += bound_wrong_powers(float(norm_type))
            assert measure_distance(float(total), norm, total_dtype) <= OF_NORM + more
            threshold = float(norm) / 3
            clipped = backend.read(clip_by_norm(array, threshold, norm_type=norm_type)).astype(np.float64)
            # In float64, an error of 1 ulp of the norm may be 2 ulp of an element.
            budget = (3.5 if dtype == "float64" and norm_type != 1 else OF_ELEMENT) + more
            for x, y in dict(zip(elements, clipped.tolist(), strict=True)).items():
                assert measure_distance(y, x * Fraction(threshold) / norm, dtype) <= budget


@pytest.mark.array_library("jax")
@pytest.mark.parametrize("norm_type", [1, 1.1, 3, 100, 1500])
def test_other_norms_of_jax_in_float64(norm_type: float) -> None:
    import jax

    values = np.random.default_rng(3).standard_normal(10_000)
    norm = compute_exact_p_norm(values, norm_type)
    with jax.enable_x64(True):
        array = jax.numpy.asarray(values)
        for total in (
            global_norm(array, norm_type=norm_type),
            clip_by_global_norm([array], 1.0, norm_type=norm_type)[1],
        ):
            assert measure_distance(float(total), norm, "float64") <= OF_NORM


#: The libraries that have loops for large arrays.
large = pytest.mark.parametrize("backend", ["numpy", "torch"], indirect=True)


@large
@pytest.mark.parametrize(("loops", "budget"), [("compiled", 0.51), ("plain", 1.5)])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_coefficient_midway_between_two_floats(
    backend: Any, dtype: str, loops: str, budget: float, use_loops: Any
) -> None:
    # Rounding the coefficient to the dtype gives it an error of half an ulp. This error alone gives an element an error
    # of one ulp.
    use_loops(loops)
    array = np.random.default_rng(52).uniform(1, 2, 1 << 18).astype(dtype)
    norm = compute_exact_norm(array)
    middle = Fraction(float(np.asarray(0.13, dtype))) * (1 + Fraction(2) ** (-24 if dtype == "float32" else -53))
    threshold = float(norm * middle)
    low = float(norm - Fraction(float(norm)))
    exact = array.astype(np.longdouble) * (np.longdouble(threshold) / (np.longdouble(float(norm)) + low))
    places = np.spacing(np.abs(exact).astype(dtype))
    for clipped in (
        clip_by_global_norm([backend.array(array, dtype)], threshold)[0][0],
        clip_by_norm(backend.array(array, dtype), threshold),
        clip_by_norm(backend.array(array, dtype), threshold, inplace=True),
    ):
        assert np.max(np.abs(backend.read(clipped) - exact) / places) <= budget


@pytest.mark.parametrize("backend", ["dask"], indirect=True)
def test_coefficient_of_a_chunked_norm_is_not_rounded_to_float32(backend: Any) -> None:
    # The total norm does not include the errors of the chunks' sums. So the coefficient must not be rounded to float32,
    # which would give elements an error of 1.2 ulp.
    array = np.random.default_rng(5).standard_normal(1 << 19).astype(np.float32)
    norm = float(np.sqrt(np.sum(np.square(array, dtype=np.float64))))
    threshold = norm * (float(np.float32(0.13)) + 0.8 * 2.0**-27)
    exact = array.astype(np.longdouble) * (np.longdouble(threshold) / norm)

    for clipped in (
        clip_by_global_norm([backend.array(array)], threshold)[0][0],
        clip_by_norm(backend.array(array), threshold),
    ):
        assert np.max(np.abs(backend.read(clipped) - exact) / np.spacing(np.abs(exact).astype(np.float32))) <= 0.75


# JAX multiplies in two steps. A coefficient below 2**-252 needs a third step.
@pytest.mark.only_where(lambda backend, threshold: backend.keeps_subnormals or threshold >= 1e-35)
@pytest.mark.parametrize("threshold", [1e-35, 1e-36])
def test_a_tiny_coefficient_of_huge_elements(backend: Any, threshold: float) -> None:
    # The coefficient is below float32's subnormal numbers, but the results are normal.
    array = np.full(1000, 3e38, np.float32)
    clipped = backend.read(clip_by_global_norm([backend.array(array)], threshold)[0][0])

    assert np.max(np.abs(clipped / (threshold / math.sqrt(1000)) - 1)) <= 1.5 * 2.0**-23


@pytest.mark.thorough(sample=4)
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
def test_arrays_of_all_sizes_together(backend: Any, dtype: str) -> None:
    # Small arrays are joined, larger ones are summed in float64, and the largest in rows. Each contributes to the sum.
    sizes = {7: 64.0, 20_000: 1.0, 200_000: 0.5}
    exact = math.sqrt(sum(size * value**2 for size, value in sizes.items()))
    arrays = [backend.array(np.full(size, value), dtype) for size, value in sizes.items()]

    for some in (arrays, arrays[::-1], arrays[:2], arrays[1:], arrays[::2]):
        part = math.sqrt(sum(math.prod(x.shape) * sizes[math.prod(x.shape)] ** 2 for x in some))
        assert float(backend.read(global_norm(some))) == pytest.approx(part, rel=2.0**-23)
    clipped = clip_by_global_norm(arrays, exact / 2)[0]
    for result, value in zip(clipped, sizes.values(), strict=True):
        assert set(backend.read(result).astype(np.float64).tolist()) == {value / 2}


@has_float64
def test_sums_that_overflow_only_together(backend: Any) -> None:
    for arrays in ([backend.array(np.full(1 << 14, 1e152), "float64")] * 2, [backend.array([1e154, 1e154], "float64")]):
        norm = float(backend.read(global_norm(arrays)))
        assert norm == pytest.approx(1.8101933598375617e154 if len(arrays) == 2 else math.sqrt(2) * 1e154, rel=1e-15)


@pytest.mark.thorough(sample=5)
@has_float64
@pytest.mark.parametrize("value", [1e-150, 1e-170, 1e-300])
def test_eps_far_above_the_norm(backend: Any, value: float) -> None:
    for threshold, eps, ratio in ((1e-7, 1e-6, 0.1), (1.0, 1e6, 1e-6), (1e5, 1e300, 1e-295)):
        # A result below the smallest float becomes zero.
        wanted = pytest.approx(value * ratio, rel=1e-15, abs=5e-324)
        array = backend.array([value], "float64")
        assert float(backend.read(clip_by_global_norm([array], threshold, eps=eps)[0][0])[0]) == wanted
        assert float(backend.read(clip_by_norm(array, threshold, eps=eps))[0]) == wanted


@has_float64
# Dask computes each chunk in the same way.
@pytest.mark.thorough(sample=2)
@pytest.mark.only_where(lambda backend: backend.name != "dask")
def test_large_float64_gradients(backend: Any) -> None:
    check(backend, np.full(300_000, 0.1), "float64")


@has_float64
@pytest.mark.only_where(lambda backend, scale: backend.keeps_subnormals or scale > -302)
@pytest.mark.parametrize("scale", [-320, -300, -200, 150, 200, 307])
def test_squares_out_of_range_float64(backend: Any, scale: int) -> None:
    values = np.array([3.0, 1.0, 0.25, 2.0, 1e-5]) * 10.0**scale

    check(backend, values, "float64")
    if backend.keeps_subnormals:
        check(backend, values, "float64", threshold=min(1e-310, float(values[0]) / 3))


@pytest.mark.parametrize("scale", [-36, -30, -20, 15, 30, 37])
def test_squares_out_of_range_float32(backend: Any, scale: int) -> None:
    values = np.array([3.0, 1.0, 0.25, 2.0]) * 10.0**scale

    check(backend, values, "float32", threshold=None if scale > -36 else 1e-36)
    check(backend, np.array([3.0, 1.0, 0.25, 2.0]) * 1e4, "float16" if "float16" in backend.dtypes else "float32")


def test_norm_beyond_the_dtype_still_scales(backend: Any) -> None:
    array = backend.array([3e38, 3e38], "float32")
    clipped, total = clip_by_global_norm([array], 2.0)

    assert float(backend.read(total)) == math.inf
    assert (
        measure_distance(float(backend.read(clipped[0])[0]), Fraction(math.isqrt(2 << 200), 1 << 100), "float32") <= 1.5
    )


def test_splitting_and_order_do_not_matter(backend: Any) -> None:
    for dtype in backend.dtypes:
        values = np.random.default_rng(5).standard_normal(3000)
        whole = global_norm(backend.array(values, dtype))
        parts = [backend.array(part, dtype) for part in np.split(values, [1, 10, 1700, 1701])]
        apart = global_norm(parts[::-1])

        gap = abs(float(backend.read(whole)) - float(backend.read(apart)))
        assert gap <= float(np.spacing(backend.read(whole)))


# The other libraries make a node of a graph for each array: that is slow and shows nothing new.
@pytest.mark.only_where(lambda backend: backend.name in ("numpy", "torch", "array-api-strict"))
def test_thousands_of_small_arrays(backend: Any) -> None:
    values = np.random.default_rng(6).standard_normal((3000, 50)).astype(np.float32)
    arrays = [backend.array(row, "float32") for row in values]
    clipped, total = clip_by_global_norm(arrays, 1.0)

    assert measure_distance(float(backend.read(total)), compute_exact_norm(values), "float32") <= 1.0
    assert (
        measure_distance(
            float(backend.read(clipped[-1])[0]), Fraction(float(values[-1, 0])) / compute_exact_norm(values), "float32"
        )
        <= 1.5
    )


#: Sizes below, at and above the limit for joining, and around the size of a row and of a chunk.
SIZES = [0, 1, 3, 100, 1023, 1025, 16_384, 16_385, 0, 65_536, 65_537, 7, 140_000, 2]


# The range of float16 is too narrow for exponents other than 0. Subnormal numbers of bfloat16 have too few bits, and
# JAX treats subnormal numbers as zero.
@pytest.mark.thorough(sample=2)
@pytest.mark.only_where(lambda dtype, exponent: dtype != "float16" or exponent == 0)
@pytest.mark.only_where(
    lambda backend, dtype, exponent: exponent > -140 or (dtype != "bfloat16" and backend.keeps_subnormals)
)
@pytest.mark.parametrize("order", [1, -1])
@pytest.mark.parametrize("exponent", [0, -60, -140, 60])
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
def test_each_of_many_by_its_own_norm(backend: Any, dtype: str, exponent: int, order: int) -> None:
    random = np.random.default_rng(4)
    scale = 2.0**exponent
    # Every third array is within the threshold.
    values = [
        random.uniform(-1, 1, size) * (scale if place % 3 else scale * 1e-3)
        for place, size in enumerate(SIZES[::order])
    ]
    arrays = [backend.array(each, dtype) for each in values]
    given = [backend.read(array).astype(np.float64) for array in arrays]
    clipped = clip_by_norm(arrays, 0.5 * scale)
    for array, before, after in zip(arrays, given, map(backend.read, clipped), strict=True):
        norm = compute_exact_norm(before)
        if norm <= Fraction(0.5 * scale):
            assert after.tobytes() == backend.read(array).tobytes()
            continue
        for index in range(0, before.size, max(before.size // 4, 1)):
            exact = Fraction(float(before[index])) * Fraction(0.5 * scale) / norm
            assert measure_distance(float(after[index]), exact, dtype) <= OF_ELEMENT


@pytest.mark.thorough(sample=1)
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
def test_memory_layouts(dtype: str) -> None:
    ml_dtypes = pytest.importorskip("ml_dtypes")
    kind = np.dtype(ml_dtypes.bfloat16 if dtype == "bfloat16" else dtype)
    base = np.random.default_rng(7).standard_normal((600, 500)).astype(kind)
    for view in (base.T, base[::2], base[:, ::3], base[::-1, ::-1], np.moveaxis(base.reshape(30, 20, 500), 0, 1)):
        norm = compute_exact_norm(view)
        exact = float(norm)
        wanted = view.astype(np.longdouble) / (np.longdouble(exact) + float(norm - Fraction(exact)))
        # Use the spacing of the format, because NumPy has no spacing for bfloat16.
        places = np.ldexp(1.0, np.frexp(np.abs(wanted).astype(np.float64))[1] - FORMATS[dtype][0])
        places = np.maximum(places, 2.0 ** (FORMATS[dtype][1] + 1 - FORMATS[dtype][0]))
        for inplace in (False, True):
            whole = np.zeros((*view.shape, 2), kind)
            given = whole[..., 0] if inplace else view
            if inplace:
                given[...] = view
            clipped, total = clip_by_global_norm([given], 1.0, inplace=inplace)
            assert abs(float(total) - exact) <= 1.01 * float(np.spacing(total.dtype.type(exact)))
            assert np.max(np.abs(clipped[0].astype(np.longdouble) - wanted) / places) <= 1.5
