"""The numbers that decide a clip: the formats of floats, and where a norm and a coefficient are computed."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

__all__ = ["FORMATS", "NUMPY_SCALARS", "Format", "Scalars", "dtype_name", "rounded"]


@dataclass(frozen=True)
class Format:
    """A floating-point format."""

    #: The bits of the significand.
    precision: int
    #: The exponents of the smallest and of the largest normal numbers, as of a fraction from 0.5 to 1.
    smallest: int
    largest: int


#: The dtypes that can be clipped.
FORMATS = {
    "float16": Format(11, -13, 16),
    "bfloat16": Format(8, -125, 128),
    "float32": Format(24, -125, 128),
    "float64": Format(53, -1021, 1024),
}


def dtype_name(dtype: Any) -> str:
    """The standard's name of a dtype, whatever the library calls it."""
    # NumPy's own functions take the scalar types as dtypes, and those carry the name of a class.
    return str(getattr(dtype, "name", None) or getattr(dtype, "__name__", None) or str(dtype).rpartition(".")[2])


@lru_cache
def rounded(value: float, name: str) -> float:
    """A number rounded to the dtype of a name."""
    if not abs(value) < math.inf:
        return value
    form = FORMATS[name]
    place = max(math.frexp(value)[1], form.smallest) - form.precision
    result = math.ldexp(round(math.ldexp(value, -place)), place)
    return result if math.frexp(result)[1] <= form.largest else math.copysign(math.inf, result)


@dataclass(frozen=True)
class Scalars:
    """Where the few numbers that decide a clip are computed: in NumPy's float64 if values may be looked at."""

    xp: Any
    format: Format
    #: A number above zero to the power of another.
    power: Callable[[Any, Any], Any]

    @property
    def precision(self) -> int:
        """The bits of the significand."""
        return self.format.precision

    @property
    def negligible_exponent(self) -> float:
        """Two to this is a normal number, and counts for nothing beside 1."""
        return -15.0 / 16 * self.format.largest


class _Numbers:
    """NumPy, with short ways for single numbers: its own functions take longer to look at one than to compute."""

    def __getattr__(self, name: str) -> Any:
        return getattr(np, name)

    def unstack(self, x: Any) -> Any:
        # NumPy has a function for it from 2.1 on.
        return tuple(x)

    def where(self, condition: Any, x: Any, y: Any) -> Any:
        if isinstance(condition, bool | np.bool_):
            return x if condition else y
        return np.where(condition, x, y)

    def isfinite(self, x: Any) -> Any:
        return math.isfinite(x) if isinstance(x, float) else np.isfinite(x)

    def full_like(self, x: Any, value: float) -> Any:
        return np.float64(value) if isinstance(x, float) else np.full_like(x, value)

    def zeros_like(self, x: Any) -> Any:
        return self.full_like(x, 0.0)

    def ones_like(self, x: Any) -> Any:
        return self.full_like(x, 1.0)

    def clip(self, x: Any, lower: float, upper: float) -> Any:
        return np.float64(min(max(x, lower), upper)) if isinstance(x, float) else np.clip(x, lower, upper)


#: Where the few numbers that decide a clip are computed if values may be looked at.
NUMPY_SCALARS = Scalars(_Numbers(), FORMATS["float64"], np.pow)
