"""Define the base of all backends: everything that a clip needs, written with the array API alone.

Requirements of a backend:

1. It is made for one call, from the included arrays, and holds the facts about them that the call needs.
2. A subclass overrides a method if its library has facts or faster functions that the standard lacks. The docstring
   stands here, unless the subclass does something else. `Sparse` is a subclass of `NumPy`, and `InMemoryTorch` one of
   `Torch`; the others have no subclasses.
3. No method here reads a value, so arrays may be traced, lazy, or on a device whose results are not ready. Only `eager`
   backends read values: they return an array itself if there is nothing to clip.
4. No library is imported before its arrays have been passed in.
"""

import contextlib
import functools
import math
import operator
from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import array_api_compat
import numpy as np

from gradclip_spec._arithmetic import divide, keep_finite, multiply_out, raise_two, two_sum, unstack
from gradclip_spec._formats import FORMATS, name_dtypes
from gradclip_spec._norms import Norm, PowerSum, join, make_power_sum, pack, take_root, take_simple_root

Array = Any
#: The least and the greatest value of an element.
Bounds = tuple[float, float]
#: The error about an array that cannot be written into, with a place for the reason.
NO_WRITING = "`inplace=True` needs arrays that can be written into, and {} cannot be, because {}; use `inplace=False`"


class Coefficient(NamedTuple):
    """A number that may be smaller than any float: a product in which all factors but one are powers of two."""

    factors: Sequence[Array]
    #: Whether the gradients stay unchanged. If they do, all factors are 1.
    unchanged: Array


def group_by(arrays: Sequence[Array], keys: Iterable[Hashable]) -> list[list[int]]:
    """Return, for each key, the indices of the arrays that have it."""
    groups: dict[Hashable, list[int]] = {}
    for index, key in enumerate(keys):
        groups.setdefault(key, []).append(index)
    return list(groups.values())


class Backend:
    """A library that follows the array API, and the arrays of one call."""

    #: The names of the dtypes for which `multiply` by one changes no element, not even subnormal ones.
    keeps_at_one: Iterable[str] = ()
    #: Whether computing a value runs the user's own functions, whose errors propagate.
    raises_errors_of_users = False
    #: Whether writing into a slice of an array writes into the array.
    slices_are_views = False
    #: Whether values can be read without computing, tracing or synchronising. If None, array-api-compat decides.
    eager: bool | None = None

    def __init__(self, xp: Any, arrays: Sequence[Array], device: Any = None) -> None:
        self.xp = xp
        #: The device of the few numbers that decide a clip.
        self.device = self.find_device(arrays[0]) if arrays else device
        self.dtypes = name_dtypes(xp, arrays)
        if self.eager is None:
            # For an unknown library, array-api-compat tries to read one element.
            self.eager = bool(arrays) and not array_api_compat.is_lazy_array(arrays[0])
        #: Whether a gradient has the dtype float64, so that sums need more than float64.
        self.any_float64 = "float64" in self.dtypes.values()
        self.has_float64 = self.any_float64 or self.supports_float64()
        self.format = FORMATS["float64" if self.has_float64 else "float32"]
        #: The dtype of exact work, and of the total norm: the widest among the gradients, at least float32.
        self.dtype = xp.float64 if self.has_float64 else xp.float32
        self.total_dtype = xp.float64 if self.any_float64 else xp.float32

    # Facts about a library and its arrays.

    def find_device(self, x: Array) -> Any:
        """Return the device for the few numbers that decide the clip of this array. None lets the library choose."""
        return array_api_compat.device(x)

    def supports_float64(self) -> bool:
        """Return whether there is float64 on the device."""
        # This is not cached: the standard gives a device no hash.
        return "float64" in self.xp.__array_namespace_info__().dtypes(device=self.device, kind="real floating")

    def find_problem(self, arrays: Sequence[Array], inplace: bool) -> tuple[int, str] | None:
        """Return the index of an array that cannot be clipped, and the reason, with a gap for the array's name."""
        reason = NO_WRITING.format("{}", "arrays of its library cannot be written into")
        some = (index for index, x in enumerate(arrays) if inplace and not array_api_compat.is_writeable_array(x))
        return next(((index, reason) for index in some), None)

    def context(self) -> contextlib.AbstractContextManager[Any]:
        """Return the context for every computation: overflow and NaN are normal results here and give no warning."""
        return np.errstate(all="ignore")

    def find_place(self, x: Array) -> Hashable:
        """Return the properties that arrays must share to be joined into one."""
        return None

    def join_alike(self, arrays: Sequence[Array]) -> Array:
        """Return small arrays of one dtype and place as one array."""
        return self.xp.concat(arrays, axis=None)

    def keep_for_derivatives(self, arrays: Sequence[Array]) -> Sequence[Array]:
        """Return the arrays, or copies of those that may be overwritten although derivatives need their old values."""
        return arrays

    def group(self, arrays: Sequence[Array]) -> list[list[int]]:
        """Return groups of indices of arrays whose own norms are computed together."""
        return [list(range(len(arrays)))] if arrays else []

    # Norms.

    def measure_norm(self, arrays: Sequence[Array], norm_type: float) -> Any:
        """Return the p-norm of all elements of all arrays."""
        if self.is_simple(norm_type):
            return Norm(take_simple_root(self.xp, self.sum_squares(arrays)))
        return take_root(self, self.summarize(arrays, norm_type), norm_type)

    def measure_norms(self, arrays: Sequence[Array], norm_type: float) -> Any:
        """Return the p-norm of each array."""
        xp = self.xp
        if self.is_simple(norm_type):
            return Norm(take_simple_root(xp, xp.stack([self.sum_squares([array]) for array in arrays])))
        powers = [self.summarize([array], norm_type) for array in arrays]
        return take_root(self, PowerSum(*map(xp.stack, zip(*powers, strict=True))), norm_type)

    def is_simple(self, norm_type: float) -> bool:
        """Return whether float64 holds the sum of all squares, with bits and range to spare."""
        return norm_type == 2 and self.has_float64 and not self.any_float64

    def summarize(self, arrays: Sequence[Array], norm_type: float) -> PowerSum:
        """Return the four numbers of a `PowerSum` for some arrays. `join` makes the norm from those of all blocks."""
        if self.is_simple(norm_type):
            one, zero = self.make_number(1.0), self.make_number(0.0)
            return PowerSum(self.sum_squares(arrays), zero, one, zero)
        return make_power_sum(self, [array for array in arrays if 0 not in array.shape], norm_type)

    def join(self, rows: Array, norm_type: float) -> Any:
        """Return the norm of all blocks from their numbers, one row for each block."""
        return take_root(self, join(self, rows, norm_type), norm_type)

    def adopt(self, norm: Norm) -> Any:
        """Convert a norm that another backend has computed."""
        return Norm(*map(self.make_number, norm))

    def sum_squares(self, arrays: Sequence[Array]) -> Array:
        """Return the sum of the squares of all elements, which are narrower than float64, as one float64 number."""
        arrays = [array for array in arrays if 0 not in array.shape]
        return self.add_squares(list(pack(self, arrays))) if arrays else self.make_number(0.0)

    def add_squares(self, arrays: Sequence[Array]) -> Array:
        """Return the sum of the squares of all elements. No array may be empty.

        In float64 the squares of narrower elements are exact, and no term is negative. A sum of n terms has a relative
        error of at most `(n - 1) * 2**-53`, in whatever order the library adds (Higham, Accuracy and Stability, section
        4.2). The root halves it. So a norm that is rounded to float32 is within `0.5 + n * 2**-30` ulp: within 1 ulp
        for fewer than `2**29` elements in the worst order. A library that adds in blocks or halves has a smaller error:
        about the number of terms in a block, instead of n.
        """
        xp = self.xp
        copies = (xp.astype(x, xp.float64) for x in arrays)
        return xp.sum(xp.stack([xp.sum(x * x) for x in copies]))

    def make_number(self, value: float) -> Array:
        """Return a number to compute a norm with."""
        return self.xp.asarray(value, dtype=self.dtype, device=self.device)

    def find_largest(self, x: Array) -> Array:
        """Return the largest magnitude of a nonempty array, or NaN if an element is NaN."""
        return self.xp.max(self.xp.abs(x))

    def raise_to_power(self, x: Array, power: float) -> Array:
        """Raise numbers above zero to a power, without the library's own power if a few products and a root do."""
        if (2 * power).is_integer() and power <= 8:
            return multiply_out(self.xp, x, int(2 * power))
        return self.xp.pow(x, self.xp.full_like(x, power))

    def round_norm(self, norm: Any) -> Array:
        """Return a norm as one rounded number, an array without dimensions."""
        if norm.exponent is None:
            return self.round_total(norm.high)
        # Multiply twice, by half the exponent each time: the power of two for the whole exponent may overflow.
        half = self.xp.floor(norm.exponent / 2)
        first, second = (raise_two(self.xp, x, self.format.precision) for x in (half, norm.exponent - half))
        return self.round_total(norm.high * first * second)

    def round_total(self, number: Array) -> Array:
        """Return a norm in the dtype of total norms."""
        return self.xp.astype(number, self.total_dtype)

    # Coefficients.

    def compute_coefficient(self, norm: Any, clip_norm: float, eps: float) -> Any:
        """Return `clip_norm / (norm + eps)`, or 1 where `norm + eps` is at most `clip_norm`."""
        xp = self.xp
        if norm.exponent is None:
            # One factor is enough: if it underflows to zero in float64, all products in a narrower dtype are zero too.
            divisor = norm.high + eps
            one = xp.ones_like(divisor)
            # Use an array: torch's compiler may keep the old value of a number that changes from call to call (pytorch
            # issue 194976).
            threshold = one * clip_norm
            within = divisor <= threshold
            quotient = xp.where(within, one, threshold) / xp.where(within, one, divisor)
            # The coefficient is 1 exactly if the norm is within the threshold. Test the coefficient and not `within`,
            # because compilers repeat a comparison for each array, but compute a quotient once.
            return Coefficient([quotient], quotient == 1)
        if clip_norm == math.inf:
            # No norm exceeds an infinite threshold, not even an infinite norm. Only a NaN norm changes the gradients.
            quotient = xp.where(xp.isnan(norm.high), norm.high, xp.ones_like(norm.high))
            return Coefficient([quotient], quotient == 1)
        if eps:
            norm = self._add_eps(norm, eps)
        bound = clip_norm * raise_two(xp, -norm.exponent, self.format.precision)
        unchanged = (norm.high < bound) | ((norm.high == bound) & (norm.low <= 0))
        factors = [xp.where(unchanged, xp.ones_like(x), x) for x in self._divide(clip_norm, norm)]
        return Coefficient(factors, unchanged)

    def divide_norms(self, norm: Any, other: Any, least: float) -> Any:
        """Return each norm divided by the other one, or by `least` if the other one is smaller. 0 / 0 is 0."""
        xp, precision = self.xp, self.format.precision
        if norm.exponent is None:
            size = xp.where(other.high < least, xp.full_like(other.high, least), other.high)
            return Norm(
                _divide_by_zero_too(xp, norm.high, size, norm.high / xp.where(size == 0, xp.ones_like(size), size))
            )
        fraction, exponent = math.frexp(least)
        small = self.round_norm(other) < least
        high, low, power = (
            xp.where(small, xp.full_like(x, value), x)
            for x, value in zip(other, (fraction, 0.0, exponent), strict=True)
        )
        divisor = xp.where(high == 0, xp.ones_like(high), high)
        quotient = divide(xp, norm.high, divisor, low, precision) + keep_finite(xp, norm.low / divisor)
        # Two to the power of the negated exponent must not overflow. So small a quotient is below any threshold.
        least_power = xp.full_like(power, -(4 * self.format.largest // 5))
        power = norm.exponent - power
        power = xp.where(power < least_power, least_power, power)
        return Norm(_divide_by_zero_too(xp, norm.high, high, quotient), xp.zeros_like(quotient), power)

    def _divide(self, clip_norm: float, norm: Norm) -> list[Array]:
        """Return numbers, zero or normal, whose product is `clip_norm / norm` if that is at most 1.

        All but one are powers of two. Two to the power `exponent - norm.exponent` may be smaller than any float, so it
        is split into three.
        """
        xp, precision = self.xp, self.format.precision
        fraction, exponent = math.frexp(clip_norm)
        power = xp.clip(exponent - norm.exponent, -2.3 * self.format.largest, self.format.largest / 2)
        third = xp.floor(power / 3)
        step = raise_two(xp, third, precision)
        divisor = xp.where(norm.high == 0, xp.ones_like(norm.high), norm.high)
        quotient = divide(xp, xp.full_like(divisor, fraction), divisor, norm.low, precision)
        return [quotient * raise_two(xp, power - 2 * third, precision), step, step]

    def _add_eps(self, norm: Norm, eps: float) -> Norm:
        """Return the sum of the norm and `eps`, with the exponent of the larger of the two."""
        xp, precision = self.xp, self.format.precision
        own = xp.full_like(norm.exponent, math.frexp(eps)[1])
        exponent = xp.where(norm.exponent < own, own, norm.exponent)
        # If the lower limit applies, the norm is negligible.
        shift = xp.clip(norm.exponent - exponent, -15 * self.format.largest / 16, 0.0)
        scale = raise_two(xp, shift, precision)
        total, error = two_sum(norm.high * scale, eps * raise_two(xp, -exponent, precision))
        return Norm(total, keep_finite(xp, error) + norm.low * scale, exponent)

    # Scaling.

    def scale(self, arrays: Sequence[Array], coefficient: Any, inplace: bool) -> list[Array]:
        """Return each array multiplied by one coefficient. If that is 1, `eager` backends return the array itself."""
        if self.eager and bool(coefficient.unchanged):
            return list(arrays)
        results = list(arrays)
        for indices in group_by(arrays, (self.dtypes[array.dtype] for array in arrays)):
            products = self.multiply([arrays[index] for index in indices], coefficient, inplace)
            for index, product in zip(indices, products, strict=True):
                results[index] = product
        return results

    def scale_each(self, arrays: Sequence[Array], coefficients: Any, inplace: bool) -> list[Array]:
        """Return each array multiplied by its own coefficient."""
        # Split all coefficients at once: if JAX has no float64 by default, it cannot take a second derivative through
        # an index.
        parts = [unstack(self.xp, x) for x in (*coefficients.factors, coefficients.unchanged)]
        results = []
        for index, array in enumerate(arrays):
            *factors, unchanged = (part[index] for part in parts)
            results += self.scale([array], Coefficient(factors, unchanged), inplace)
        return results

    def multiply(self, arrays: Sequence[Array], coefficient: Coefficient, inplace: bool) -> list[Array]:
        """Return arrays of one dtype multiplied by one coefficient. Each factor rounds the product once."""
        xp, name = self.xp, self.dtypes[arrays[0].dtype]
        results = []
        for x in arrays:
            product = xp.astype(x, self.dtype, copy=False)
            for factor in self.list_factors(coefficient, name):
                product = product * factor
            product = xp.astype(product, x.dtype, copy=False)
            if name not in self.keeps_at_one:
                product = xp.where(coefficient.unchanged, x, product)
            if inplace:
                x[...] = product
            results.append(x if inplace else product)
        return results

    def join_units(self, x: Array, units: Sequence[Array], axis: int, inplace: bool) -> Array:
        """Return units as one array like `x`. Only backends whose slices are copies are asked to do so in place."""
        joined = self.xp.stack(units, axis=axis)
        if not inplace:
            return joined
        x[...] = joined
        return x

    def list_factors(self, coefficient: Coefficient, name: str) -> Sequence[Array]:
        """Return the factors of a coefficient. Arrays of a dtype narrower than float64 need only one."""
        narrow = self.has_float64 and name != "float64"
        return [functools.reduce(operator.mul, coefficient.factors)] if narrow else coefficient.factors

    # Values.

    def clip_all(self, arrays: Sequence[Array], bounds: Mapping[str, Bounds], inplace: bool) -> list[Array]:
        """Return each array clipped to the bounds for the name of its dtype, which holds them exactly."""
        return [self.clip(x, *bounds[self.dtypes[x.dtype]], inplace) if 0 not in x.shape else x for x in arrays]

    def clip(self, x: Array, lower: float, upper: float, inplace: bool) -> Array:
        """Return a nonempty array clipped to bounds that its dtype holds exactly, or the array itself if unchanged."""
        # In place, looking for an element to clip takes longer than clipping.
        if self.eager and not inplace and self.is_within(x, lower, upper):
            return x
        return self.limit(x, lower, upper, inplace)

    def is_within(self, x: Array, lower: float, upper: float) -> bool:
        """Return whether all elements of a nonempty array are within bounds."""
        return bool(lower <= self.xp.min(x)) and bool(self.xp.max(x) <= upper)

    def limit(self, x: Array, lower: float, upper: float, inplace: bool) -> Array:
        """Return an array clipped to bounds that its dtype holds exactly."""
        # `where` copies the elements within the bounds bit for bit. `clip` may flush subnormal numbers, and may give a
        # zero the sign of a bound.
        xp = self.xp
        clipped = xp.where(x < lower, xp.full_like(x, lower), xp.where(x > upper, xp.full_like(x, upper), x))
        if not inplace:
            return clipped
        x[...] = clipped
        return x


def _divide_by_zero_too(xp: Any, x: Array, y: Array, quotient: Array) -> Array:
    """Return a quotient of numbers that are not negative, or infinity where only the divisor is zero."""
    return xp.where((y == 0) & (x > 0), xp.full_like(quotient, math.inf), quotient)


class OneByOne:
    """The part of a backend that clips each array by its own norm separately, so that no array waits for another."""

    def group(self, arrays: Sequence[Array]) -> list[list[int]]:
        return [[index] for index in range(len(arrays))]

    def measure_norms(self: Any, arrays: Sequence[Array], norm_type: float) -> Any:
        return self.measure_norm(arrays, norm_type)

    def scale_each(self: Any, arrays: Sequence[Array], coefficients: Any, inplace: bool) -> list[Array]:
        return self.scale(arrays, coefficients, inplace)  # type: ignore[no-any-return]


@functools.cache
def make_number_backend() -> Backend:
    """Return a NumPy backend that computes with the few numbers of a norm."""
    import array_api_compat.numpy

    backend = Backend(array_api_compat.numpy, [])
    backend.total_dtype = np.float64
    return backend
