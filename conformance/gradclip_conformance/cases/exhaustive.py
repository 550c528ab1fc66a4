"""Cases that hold every number of a dtype of 16 bits: what is done element by element is looked at everywhere."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from gradclip_adapters.contract import Array, Gradient

from ..case import Case, Untouched, Values
from ..formats import FORMATS, to_doubles
from .build import case

__all__ = ["cases"]


def cases() -> Iterator[Case]:
    """All cases of this theme."""
    for dtype in ("float16", "bfloat16"):
        every = np.arange(2**16, dtype="<u2")
        both, one = {"min": -1.5, "max": 0.375}, {"max": 1.5}
        # Beside the numbers NaN of every payload, both infinities, both zeros, and all subnormal numbers.
        for name, bounds in (("every-number-min-and-max", both), ("every-number-max-only", one)):
            yield case("value.bounds", name, dtype, [_gradient(every, dtype)], bounds, Values())
        finite = every[np.isfinite(to_doubles(every.tobytes(), dtype))]
        widest = {"max": float(FORMATS[dtype].largest)}
        inside = [_gradient(finite, dtype)]
        yield case("value.inside-unchanged", "every-finite-number", dtype, inside, widest, Untouched((0,)))


def _gradient(bits: npt.NDArray[np.uint16], dtype: str) -> Gradient:
    return Gradient("", Array(dtype, bits.shape, bits.tobytes()))
