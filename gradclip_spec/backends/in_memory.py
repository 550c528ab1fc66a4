"""Clips of arrays whose memory can be read and written: the few numbers that decide are Python's.

A norm is a float, where squares of narrower elements were added in float64, or it is not finite; any other norm is an
exact `Fraction`. So is the coefficient that is made of it, and comparing it with a threshold rounds nothing.
"""

import contextlib
import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from gradclip_spec import kernels
from gradclip_spec._arithmetic import name_dtype
from gradclip_spec._norms import Norm, PowerSum
from gradclip_spec.kernels import plain

__all__ = ["InMemory", "round_norm"]

Array = Any
Number = float | Fraction

#: Sums between these neither overflowed nor lost squares that underflow: beside them, `2**-1022` does not count.
_SMALLEST, _LARGEST = 2.0**-900, 2.0**1000


class InMemory:
    """What NumPy arrays and torch tensors on the CPU have in common; with the methods of a `kernels.Memory`."""

    eager: bool | None = True
    has_float64 = True
    device: Any = None

    def __init__(self, xp: Any, arrays: Sequence[Array], device: Any = None) -> None:
        self.xp = xp
        self.shared_out: Any = None
        self.dtypes = {dtype: name_dtype(dtype) for dtype in {x.dtype for x in arrays}}
        self.wide = "float64" in self.dtypes.values()
        self.total_dtype = xp.float64 if self.wide else xp.float32

    def make_like(self, arrays: Sequence[Array]) -> list[Array]:
        """Return new arrays like others, of any content."""
        raise NotImplementedError

    def context(self) -> contextlib.AbstractContextManager[Any]:
        """Return what is entered around every computation: overflow and NaN are results here, nothing to warn of."""
        return np.errstate(all="ignore")

    def norm(self, arrays: Sequence[Array], norm_type: float) -> Number:
        """Return the p-norm of all elements of all arrays."""
        if norm_type in (1, 2):
            (parts,) = kernels.sum_powers(self, arrays, int(norm_type), self.wide)  # type: ignore[arg-type]
            if norm_type == 2 and not self.wide:
                return math.sqrt(math.fsum(parts))
            return self._finish(arrays, parts, int(norm_type))
        largest = kernels.find_largest(self, arrays)  # type: ignore[arg-type]
        if not 0 < largest < math.inf:
            return largest
        if norm_type == math.inf:
            return Fraction(largest)
        views = self.view([x for x, size in zip(arrays, self.measure(arrays), strict=True) if size])  # type: ignore[attr-defined]
        return _take_root(plain.sum_other_powers(views, norm_type, largest), norm_type, largest)

    def norms(self, arrays: Sequence[Array], norm_type: float) -> list[Number]:
        """Return the p-norm of each array."""
        if norm_type not in (1, 2):
            return [self.norm([array], norm_type) for array in arrays]
        sums = kernels.sum_powers(self, arrays, int(norm_type), self.wide, each=True)  # type: ignore[arg-type]
        return [self._finish([x], parts, int(norm_type)) for x, parts in zip(arrays, sums, strict=True)]

    def _finish(self, arrays: Sequence[Array], parts: list[float], power: int) -> Number:
        """Return the norm whose powers add up from these parts; sum them anew, scaled, if they have left the range."""
        if not self.wide:
            total = math.fsum(parts)
            return math.sqrt(total) if power == 2 else total
        if _SMALLEST < sum(parts) < _LARGEST:
            return _root_exactly(parts, power)
        largest = kernels.find_largest(self, arrays)  # type: ignore[arg-type]
        if not 0 < largest < math.inf:
            return largest
        # Within what a float can be.
        exponent = max(min(math.frexp(largest)[1], 1023), -1000)
        (parts,) = kernels.sum_powers(self, arrays, power, True, 2.0**-exponent)  # type: ignore[arg-type]
        return _root_exactly(parts, power) * Fraction(2) ** exponent

    def coefficient(self, norm: Any, clip_norm: float, eps: float) -> Any:
        """Return `clip_norm / (norm + eps)`, or 1 where `norm + eps` is at most `clip_norm`; of each norm in a list."""
        if isinstance(norm, list):
            return [self.coefficient(each, clip_norm, eps) for each in norm]
        divisor = norm + (eps if isinstance(norm, float) else Fraction(eps))
        if divisor <= clip_norm:
            return 1.0
        return clip_norm / divisor if isinstance(divisor, float) else Fraction(clip_norm) / divisor

    def scale(self, arrays: Sequence[Array], coefficient: Any, inplace: bool) -> list[Array]:
        """Return each array multiplied by one coefficient, or itself if that is 1."""
        if coefficient == 1:
            return list(arrays)
        factor = (coefficient, 0.0, 1.0) if isinstance(coefficient, float) else _split(coefficient)
        targets = arrays if inplace else self.make_like(arrays)
        kernels.scale(self, arrays, targets, [factor] * len(arrays))  # type: ignore[arg-type]
        return list(targets)

    def scale_each(self, arrays: Sequence[Array], coefficients: Any, inplace: bool) -> list[Array]:
        """Return each array multiplied by its own coefficient, or itself if that is 1."""
        results = list(arrays)
        changed = [index for index, coefficient in enumerate(coefficients) if coefficient != 1]
        some = [arrays[index] for index in changed]
        targets = some if inplace else self.make_like(some)
        kernels.scale(self, some, targets, [_split(coefficients[index]) for index in changed])  # type: ignore[arg-type]
        for index, target in zip(changed, targets, strict=True):
            results[index] = target
        return results

    def total(self, norm: Any) -> Array:
        """Return a norm as one rounded number, an array without dimensions."""
        return self.xp.asarray(round_norm(norm, self.wide))

    def summarize(self, arrays: Sequence[Array], norm_type: float) -> PowerSum:
        """Return the four numbers of some blocks from which, and those of all others, the norm of all is made."""
        norm = self.norm(arrays, norm_type)
        if isinstance(norm, float):
            exponent = math.frexp(norm)[1] if 0 < norm < math.inf else 0
            norm = Fraction(norm) if math.isfinite(norm) else norm
        if not isinstance(norm, Fraction) or norm_type == math.inf:
            return PowerSum(float(round_norm(norm, True)), 0.0, 1.0, 0.0)
        exponent = max(min(_find_exponent(norm), 1000), -900)
        share = norm / Fraction(2) ** exponent
        if norm_type not in (1, 2):
            return PowerSum(1.0, 0.0, float(share), exponent) if share else PowerSum(0.0, 0.0, 1.0, 0.0)
        power = share ** int(norm_type)
        return PowerSum(float(power), float(power - Fraction(float(power))), 1.0, exponent)

    def adopt(self, norm: Norm) -> Number:
        """Return a norm that was made elsewhere."""
        high, low, exponent = map(float, norm)
        if not math.isfinite(high):
            return high
        return (Fraction(high) + Fraction(low)) * Fraction(2) ** int(exponent)


def round_norm(norm: Number, wide: bool) -> Array:
    """Return a norm as a NumPy array without dimensions, of float64 or float32."""
    try:
        return np.asarray(float(norm), np.float64 if wide else np.float32)
    except OverflowError:
        return np.asarray(math.inf, np.float64 if wide else np.float32)


def _find_exponent(number: Fraction) -> int:
    return number.numerator.bit_length() - number.denominator.bit_length()


def _root_exactly(parts: Sequence[float], power: int) -> Fraction:
    """Return the root of a sum of squares, to `2**-120` of itself, or a sum of magnitudes, exactly."""
    high = math.fsum(parts)
    total = Fraction(high) + Fraction(math.fsum([*parts, -high]))
    if power == 1 or not total:
        return total
    # A power of two is under it: `numerator * 2**shift` has at least 256 bits, and `2**shift / denominator` has a root.
    shift = max(256 - total.numerator.bit_length(), 0)
    shift += (total.denominator.bit_length() - 1 + shift) % 2
    half = (total.denominator.bit_length() - 1 + shift) // 2
    return Fraction(math.isqrt(total.numerator << shift), 1 << half)


def _take_root(parts: Sequence[float], norm_type: float, largest: float) -> Number:
    """Return the p-th root of a sum of powers of what was divided by the largest magnitude, or by a power of two."""
    fraction, exponent = math.frexp(largest)
    high = np.float64(math.fsum(parts))
    low = math.fsum([*parts, -high])
    result = high ** (1 / norm_type)
    # One step of Newton's: `1 / norm_type` is rounded, and the error of that grows with the logarithm of the sum.
    correction = result * (((high - result**norm_type) + low) / (norm_type * high))
    if not np.isfinite(result):
        return math.inf
    if not np.isfinite(correction):
        correction = np.float64(0.0)
    root = Fraction(float(result)) + Fraction(float(correction))
    return root * Fraction(2 * fraction if norm_type > 50 else 1.0) * Fraction(2) ** (exponent - 1)


def _split(coefficient: Number) -> tuple[float, float, float]:
    """Return a coefficient as a pair of floats and a power of two: a pair needs some bits above the smallest float."""
    if isinstance(coefficient, float):
        return coefficient, 0.0, 1.0
    shift = max(0, min(1074, -900 - _find_exponent(coefficient)))
    scaled = coefficient * 2**shift
    high = float(scaled)
    return high, float(scaled - Fraction(high)), 2.0**-shift
