"""Clip arrays whose memory can be read and written. Norms and coefficients are Python numbers.

A norm is a float if it is not finite, or if squares of narrower elements were summed in float64. Any other norm is a
`Fraction`. Comparing a norm with a threshold rounds nothing.
"""

import contextlib
import decimal
import functools
import math
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any

import numpy as np
from array_api_compat import is_numpy_namespace

from gradclip_spec import kernels
from gradclip_spec._formats import name_dtype
from gradclip_spec._norms import Norm, PowerSum
from gradclip_spec.backends.base import make_number_backend
from gradclip_spec.kernels import plain

Array = Any
Number = float | Fraction

#: A sum between these limits did not overflow. It lost nothing by underflow either, because `2**-1022` is negligible
#: compared with it.
_SMALLEST, _LARGEST = 2.0**-900, 2.0**1000
#: The names of dtypes. NumPy takes two microseconds to make one.
_name_dtype = functools.lru_cache(name_dtype)
#: The coefficient that changes nothing.
ONE: kernels.Factor = (1.0, 0.0, 1.0)
#: A decimal context with more digits than any norm needs, and exponents far beyond those of float64. A root beyond
#: these exponents is infinite.
_DIGITS = decimal.Context(prec=40, Emin=-9999, Emax=9999, traps=[decimal.InvalidOperation])


class InMemory(kernels.Memory):
    """The common base of the backends of NumPy arrays and torch tensors on the CPU. `Backend` describes the methods."""

    eager: bool | None = True
    has_float64 = True
    slices_are_views = True
    device: Any = None

    def __init__(self, xp: Any, arrays: Sequence[Array], device: Any = None) -> None:
        self.xp = xp
        self.last_cut = (), [], []
        self.dtypes: Mapping[Any, str] = {dtype: _name_dtype(dtype) for dtype in {x.dtype for x in arrays}}
        self.any_float64 = "float64" in self.dtypes.values()
        self.total_dtype = xp.float64 if self.any_float64 else xp.float32

    def make_like(self, arrays: Sequence[Array]) -> list[Array]:
        """Return new, uninitialised arrays with the layout of others."""
        return list(map(self.xp.empty_like, arrays))

    def record_writing(self, arrays: Sequence[Array]) -> None:
        """Tell the library that arrays were written into."""

    def context(self) -> contextlib.AbstractContextManager[Any]:
        return np.errstate(all="ignore")

    def measure_norm(self, arrays: Sequence[Array], norm_type: float) -> Number:
        if norm_type == 2 and not self.any_float64:
            (parts,) = kernels.sum_powers(self, arrays, 2, False)
            return math.sqrt(math.fsum(parts))
        return self._take_root(self.summarize(arrays, norm_type), norm_type)

    def measure_norms(self, arrays: Sequence[Array], norm_type: float) -> list[Number]:
        if norm_type not in (1, 2):
            return [self.measure_norm([array], norm_type) for array in arrays]
        sums = kernels.sum_powers(self, arrays, int(norm_type), self.any_float64, each=True)
        powers = (self._check_range([x], parts, int(norm_type)) for x, parts in zip(arrays, sums, strict=True))
        return [self._take_root(each, norm_type) for each in powers]

    def summarize(self, arrays: Sequence[Array], norm_type: float) -> PowerSum:
        if norm_type in (1, 2):
            (parts,) = kernels.sum_powers(self, arrays, int(norm_type), self.any_float64)
            return self._check_range(arrays, parts, int(norm_type))
        largest = kernels.find_largest(self, arrays)
        if not 0 < largest < math.inf or norm_type == math.inf:
            return PowerSum(largest, 0.0, 1.0, 0.0)
        views = self.view([x for x, size in zip(arrays, self.measure(arrays), strict=True) if size])
        unit = plain.find_unit(norm_type, largest)
        return _add_up(plain.sum_other_powers(views, norm_type, unit), unit)

    def _check_range(self, arrays: Sequence[Array], parts: list[float], power: int) -> PowerSum:
        """Return the sum of powers from its parts. If the sum has left the range, sum again with scaled elements."""
        if not self.any_float64 or _SMALLEST < sum(parts) < _LARGEST:
            return _add_up(parts)
        largest = kernels.find_largest(self, arrays)
        if not 0 < largest < math.inf:
            return PowerSum(largest, 0.0, 1.0, 0.0)
        # Keep the power of two within the range of floats.
        exponent = max(min(math.frexp(largest)[1], 1000), -1000)
        (parts,) = kernels.sum_powers(self, arrays, power, True, 2.0**-exponent)
        return _add_up(parts, exponent=exponent)

    def _take_root(self, powers: PowerSum, norm_type: float) -> Number:
        """Return the norm from the sum of powers: exact if p is 1, with a relative error of `2**-120` if p is 2."""
        high, low, divisor, exponent = powers
        if not 0 < high < math.inf:
            return float(high)
        if norm_type == 2 and not self.any_float64:
            return math.sqrt(high)
        if norm_type == 2:
            root = _root_exactly(high, low)
        elif norm_type in (1, math.inf):
            root = Fraction(high) + Fraction(low)
        else:
            digits = _DIGITS.add(decimal.Decimal(high), decimal.Decimal(low))
            power = _DIGITS.power(digits, _DIGITS.divide(1, decimal.Decimal(norm_type)))
            if power.is_infinite():
                return math.inf
            root = Fraction(power)
        # Fractions are slow, and hardly any norm has a divisor or an exponent.
        if divisor != 1:
            root *= Fraction(divisor)
        return root * Fraction(2) ** int(exponent) if exponent else root

    def compute_coefficient(self, norm: Any, clip_norm: float, eps: float) -> Any:
        """Return, for each norm in a list, `clip_norm / (norm + eps)`, or 1 if `norm + eps` is at most `clip_norm`."""
        if isinstance(norm, list):
            return [self.compute_coefficient(each, clip_norm, eps) for each in norm]
        divisor = norm + (eps if isinstance(norm, float) else Fraction(eps)) if eps else norm
        if not isinstance(divisor, float):
            return _divide_threshold(clip_norm, divisor)
        return ONE if divisor <= clip_norm else (clip_norm / divisor, 0.0, 1.0)

    def divide_norms(self, norm: Any, other: Any, least: float) -> Any:
        """Return each norm (one, or a list) divided by the other one, or by `least` if the other one is smaller."""
        if isinstance(norm, list):
            return [self.divide_norms(*pair, least) for pair in zip(norm, other, strict=True)]
        # Python returns the first of two numbers unless the second is larger, so a NaN stays.
        return _divide(norm, max(other, least))

    def scale(self, arrays: Sequence[Array], coefficient: Any, inplace: bool) -> list[Array]:
        """Return each array times the coefficient (one for all, or a list). If it is 1, return the array itself."""
        if coefficient == ONE or not arrays:
            return list(arrays)
        targets = arrays if inplace else self.make_like(arrays)
        kernels.scale(self, arrays, targets, coefficient)
        if inplace:
            self.record_writing(arrays)
        return list(targets)

    def scale_each(self, arrays: Sequence[Array], coefficients: Any, inplace: bool) -> list[Array]:
        """Return each array times its coefficient. If that is 1, return the array itself."""
        changed = [x for x, coefficient in zip(arrays, coefficients, strict=True) if coefficient != ONE]
        products = iter(self.scale(changed, [each for each in coefficients if each != ONE], inplace))
        return [x if each == ONE else next(products) for x, each in zip(arrays, coefficients, strict=True)]

    def round_norm(self, norm: Any) -> Array:
        try:
            number = float(norm)
        except OverflowError:
            number = math.inf
        total = np.asarray(number, np.float64 if self.any_float64 else np.float32)
        return total if is_numpy_namespace(self.xp) else self.xp.asarray(total, device="cpu")

    def join(self, rows: Array, norm_type: float) -> Number:
        return self.adopt(make_number_backend().join(np.asarray(rows), norm_type))

    def adopt(self, norm: Norm) -> Number:
        high, low, exponent = map(float, norm)
        if not math.isfinite(high):
            return high
        return (Fraction(high) + Fraction(low)) * Fraction(2) ** int(exponent)


def _add_up(parts: Sequence[float], divisor: float = 1.0, exponent: float = 0.0) -> PowerSum:
    """Return the sum of powers from its parts, as two floats."""
    high = math.fsum(parts)
    return PowerSum(high, math.fsum([*parts, -high]) if high < math.inf else 0.0, divisor, exponent)


def _divide(norm: Number, other: Number) -> Number:
    """Return the quotient of two norms, exactly if both are finite. Zero divided by zero is zero."""
    # A fraction is finite, and may be beyond the range of floats.
    if isinstance(norm, float) and not math.isfinite(norm):
        return norm if isinstance(other, Fraction) or not other else norm / other
    if isinstance(other, float) and not math.isfinite(other):
        return 0.0 if math.isinf(other) else other
    if not other:
        return math.inf if norm else 0.0
    return Fraction(norm) / Fraction(other)


# The following functions compute with integers, because each operation on fractions takes several microseconds.


def _root_exactly(high: float, low: float) -> Fraction:
    """Return the square root of `high + low`, above zero: exactly if it is rational.

    Otherwise the relative error is at most `2**-120`.
    """
    (number, scale), (other, other_scale) = high.as_integer_ratio(), low.as_integer_ratio()
    number, scale = number * other_scale + other * scale, scale * other_scale
    # The denominator `scale` is a power of two: choose `shift` so that `number * 2**shift` has at least 256 bits, and
    # `2**shift * scale` has an exact root.
    shift = max(256 - number.bit_length(), 0)
    shift += (scale.bit_length() - 1 + shift) % 2
    return Fraction(math.isqrt(number << shift), 1 << ((scale.bit_length() - 1 + shift) // 2))


def _divide_threshold(clip_norm: float, norm: Fraction) -> kernels.Factor:
    """Return the quotient as a pair of floats and a power of two, or `ONE` if the norm is within the threshold.

    The pair is well above the smallest float.
    """
    if clip_norm == math.inf:
        return ONE
    number, scale = clip_norm.as_integer_ratio()
    number, scale = number * norm.denominator, scale * norm.numerator
    if scale <= number:
        return ONE
    shift = max(0, min(1074, scale.bit_length() - number.bit_length() - 900))
    number <<= shift
    # A quotient of integers is correctly rounded.
    high = number / scale
    top, bottom = high.as_integer_ratio()
    return high, (number * bottom - top * scale) / (scale * bottom), 2.0**-shift
