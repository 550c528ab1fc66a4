"""Say which results are right for gradients whose norm is not finite.

An infinite norm above a finite threshold makes the coefficient 0, so IEEE arithmetic turns finite elements into zeros
and the others into NaN. A norm that is NaN turns every element into NaN. NaN everywhere is always right.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable

import numpy as np
import numpy.typing as npt

__all__ = ["list_nonfinite_norms", "predict_nonfinite", "shows_nonfinite"]

Doubles = npt.NDArray[np.float64]


def list_nonfinite_norms(gradients: Iterable[Doubles]) -> tuple[float, ...]:
    """Return the norms that gradients with a NaN or an infinity may have, or none if all elements are finite.

    With both a NaN and an infinity, the sum of the formula is NaN, and the function `hypot` of IEEE 754 gives infinity:
    either is right.
    """
    arrays = list(gradients)
    norms = (math.nan,) if any(np.isnan(values).any() for values in arrays) else ()
    return (*norms, math.inf) if any(np.isinf(values).any() for values in arrays) else norms


def predict_nonfinite(values: Doubles, norm: float) -> Doubles:
    """Return what IEEE arithmetic gives for a gradient with this norm, which is infinite or NaN."""
    with np.errstate(invalid="ignore"):
        return np.asarray(values * (math.nan if math.isnan(norm) else 0.0))


def shows_nonfinite(given: Iterable[Doubles], results: Iterable[Doubles], norms: Collection[float]) -> bool:
    """Return whether the results of gradients that share a norm, one of `norms`, show that it is not finite."""
    before, after = np.concatenate([*given]), np.concatenate([*results])
    follows = math.inf in norms and np.array_equal(predict_nonfinite(before, math.inf), after, equal_nan=True)
    return follows or bool(np.isnan(after).all())
