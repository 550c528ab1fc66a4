"""Describe the float formats that can be clipped."""

import math
import operator
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any


@dataclass(frozen=True)
class Format:
    """A floating-point format."""

    #: The bits of the significand.
    precision: int
    #: The exponents of the smallest and largest normal numbers, with significands from 0.5 to 1.
    smallest: int
    largest: int


#: The dtypes that can be clipped.
FORMATS = {
    "float16": Format(11, -13, 16),
    "bfloat16": Format(8, -125, 128),
    "float32": Format(24, -125, 128),
    "float64": Format(53, -1021, 1024),
}


def name_dtype(dtype: Any) -> str:
    """Return the name that the array API standard gives to a dtype."""
    # NumPy's functions also take scalar types such as `np.float32`, whose text is not the name of a dtype.
    return str(getattr(dtype, "name", None) or getattr(dtype, "__name__", None) or str(dtype).rpartition(".")[2])


def name_dtypes(xp: Any, arrays: Sequence[Any]) -> Mapping[Any, str]:
    """Return the names of the arrays' dtypes."""
    dtypes = list(map(operator.attrgetter("dtype"), arrays))
    try:
        return {dtype: name_dtype(dtype) for dtype in set(dtypes)}
    except TypeError:
        return _Names(xp, dtypes)


class _Names(Mapping[Any, str]):
    """The names of dtypes that have no hash. The standard lets a library compare dtypes, and nothing else."""

    def __init__(self, xp: Any, dtypes: Sequence[Any]) -> None:
        known = [(getattr(xp, name), name) for name in FORMATS if hasattr(xp, name)]
        self._pairs: list[tuple[Any, str]] = []
        for dtype in dtypes:
            if all(dtype != other for other, _ in self._pairs):
                self._pairs.append((dtype, next((name for other, name in known if dtype == other), name_dtype(dtype))))

    def __getitem__(self, dtype: Any) -> str:
        return next(name for other, name in self._pairs if dtype == other)

    def __iter__(self) -> Iterator[Any]:
        return iter(dtype for dtype, _ in self._pairs)

    def __len__(self) -> int:
        return len(self._pairs)


@lru_cache
def round_to(name: str, value: float) -> float:
    """Return a number rounded to the named dtype, ties to even."""
    if not abs(value) < math.inf:
        return value
    form = FORMATS[name]
    place = max(math.frexp(value)[1], form.smallest) - form.precision
    result = math.ldexp(round(math.ldexp(value, -place)), place)
    return result if math.frexp(result)[1] <= form.largest else math.copysign(math.inf, result)
