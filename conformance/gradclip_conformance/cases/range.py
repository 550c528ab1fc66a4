"""Cases at the ends of a dtype's range: the norm is representable, and its square, or the coefficient, is not."""

from __future__ import annotations

from collections.abc import Iterator

from ..case import Case, ReturnedNorm, Values
from ..formats import FORMATS
from .build import DTYPES, NORM_OPERATIONS, case, tensor

__all__ = ["cases"]

#: Powers of two by which 3, 4 and 5 are representable, and their squares neither finite nor above zero.
HUGE = {"float16": 2.0**7, "bfloat16": 2.0**65, "float32": 2.0**65, "float64": 2.0**600}
TINY = {"float16": 2.0**-14, "bfloat16": 2.0**-80, "float32": 2.0**-80, "float64": 2.0**-600}
#: Threshold and size of the gradients whose quotient underflows, while the result does not.
FAR_APART = {
    "float16": (2.0**-11, 2.0**13),
    "bfloat16": (2.0**-100, 2.0**100),
    "float32": (2.0**-100, 2.0**100),
    "float64": (2.0**-900, 2.0**900),
}


def cases() -> Iterator[Case]:
    """All cases of this theme."""
    for dtype in DTYPES:
        for operation in NORM_OPERATIONS:
            for rule, unit in ((f"{operation}.overflow-of-squares", HUGE), (f"{operation}.underflow-of-squares", TINY)):
                triangle, options = [tensor([3 * unit[dtype], 4 * unit[dtype]], dtype)], {"clip_norm": unit[dtype]}
                yield case(rule, "three-four-five", dtype, triangle, options, Values(wide=True))
                if operation == "global-norm":
                    apart = [tensor([3 * unit[dtype]], dtype), tensor([4 * unit[dtype]], dtype)]
                    yield case(rule, "two-tensors", dtype, apart, options, Values(wide=True))
                    returned = ReturnedNorm(wide=True)
                    yield case(rule, "returned-norm", dtype, apart, options, returned, ["returns_norm"])
            yield from _subnormal(operation, dtype)
            small, large = FAR_APART[dtype]
            distant = [tensor([3 * large, 4 * large], dtype)]
            rule = f"{operation}.coefficient-underflow"
            yield case(rule, "far-apart", dtype, distant, {"clip_norm": small}, Values(leaves_range=True))
            rule, largest = f"{operation}.norm-beyond-range", float(FORMATS[dtype].largest)
            four = [tensor([largest, -largest, largest, largest], dtype)]
            yield case(rule, "twice-the-largest", dtype, four, {"clip_norm": largest / 4}, Values(leaves_range=True))


def _subnormal(operation: str, dtype: str) -> Iterator[Case]:
    unit = float(FORMATS[dtype].smallest_subnormal)
    triangle = [tensor([48 * unit, -64 * unit], dtype)]
    rule = f"{operation}.subnormal"
    yield case(rule, "three-four-five", dtype, triangle, {"clip_norm": 40 * unit}, Values(wide=True))
