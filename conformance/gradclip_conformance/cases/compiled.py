"""Cases of a call inside the framework's compiler beside the same call by itself."""

from __future__ import annotations

import math
from collections.abc import Iterator

from gradclip_adapters.contract import Gradient

from ..case import Case, CompiledAgrees
from .build import DTYPES, OPERATIONS, case, clipping_options, every_digit, scattered_tensor, tensor

__all__ = ["cases"]

#: Long enough for vectors, with a rest that fills none.
LONG = 1003

#: The calls in which a rounding may differ. The others are made in one dtype only, because compilers take their time.
IN_EVERY_DTYPE = ("clipped", "long")
OTHERWISE_IN = "float32"


def cases() -> Iterator[Case]:
    """All cases of this theme."""
    for dtype in DTYPES:
        for operation in OPERATIONS:
            for variant, (gradients, threshold) in _calls(dtype).items():
                if variant not in IN_EVERY_DTYPE and dtype != OTHERWISE_IN:
                    continue
                options = clipping_options(operation, threshold)
                yield case(
                    f"{operation}.compiled-agrees", variant, dtype, gradients, options, CompiledAgrees(), ["compiles"]
                )


def _calls(dtype: str) -> dict[str, tuple[list[Gradient], float]]:
    digits, zeros = tensor(every_digit(dtype), dtype), tensor([0.0, -0.0], dtype)
    excluded = tensor([math.nan, -math.inf, *every_digit(dtype)], dtype, need_clip=False)
    return {
        "clipped": ([digits, zeros], 1.25),
        "not-clipped": ([digits, zeros], 512.0),
        "long": ([scattered_tensor(LONG, dtype), digits], 2.0**-7),
        "nan": ([tensor([3.0, math.nan, 0.0], dtype), digits], 1.25),
        "infinity": ([tensor([3.0, math.inf, -math.inf, 0.0], dtype), digits], 1.25),
        "zeros": ([zeros, zeros], 1.25),
        "excluded": ([digits, excluded], 1.25),
        "none": ([tensor(None, dtype), digits], 1.25),
    }
