"""Define the formulas by which frameworks scale gradients, and their results for a norm that is not finite.

An infinite norm above a finite threshold makes the coefficient 0, so IEEE arithmetic turns finite elements into zeros
and the others into NaN. A norm that is NaN turns every element into NaN. NaN everywhere is always right.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

Doubles = npt.NDArray[np.float64]

#: The largest number of float64. A larger number cannot be converted.
LARGEST_EPS = sys.float_info.max

KINDS = ("plain", "coefficient", "max-denominator", "min-numerator")


@dataclass(frozen=True)
class Formula:
    r"""A formula of the coefficient that multiplies the gradients, for a norm `n` and a threshold `c`.

    ================= =================================================
    kind              coefficient
    ================= =================================================
    plain             :math:`c / n` where `n > c`, 1 otherwise
    coefficient       :math:`\min(1, c / (n + \epsilon))`
    max-denominator   :math:`c / (\max(n, c) + \epsilon)`
    min-numerator     :math:`\min(n, c) / (n + \epsilon)`
    ================= =================================================
    """

    kind: str = "plain"
    eps: float = 0.0

    def __post_init__(self) -> None:
        """Refuse a kind that does not exist, and a number that cannot be added to a norm."""
        if self.kind not in KINDS:
            msg = f"There is no formula of the kind {self.kind!r}; choose among {', '.join(KINDS)}."
            raise ValueError(msg)
        if not 0 <= self.eps < math.inf:
            msg = f"A formula's `eps` must be a finite number that is not negative, got {self.eps!r}."
            raise ValueError(msg)

    @classmethod
    def of(cls, mapping: Mapping[str, Any]) -> Formula:
        """Return the formula that an adapter, a claim or a known failure gives as a mapping."""
        if "kind" not in mapping:
            msg = f"The formula {dict(mapping)} has no `kind`; give one of {', '.join(KINDS)}."
            raise ValueError(msg)
        eps = mapping.get("eps", 0.0)
        if isinstance(eps, bool) or not isinstance(eps, int | float) or abs(eps) > LARGEST_EPS:
            msg = f"A formula's `eps` must be a finite number that is not negative, got {str(eps)[:40]!r}."
            raise ValueError(msg)
        return cls(mapping["kind"], float(eps))

    @classmethod
    def parse(cls, text: str) -> Formula:
        """Return the formula of a text such as `coefficient:1e-6`.

        Raises
        ------
        ValueError
            If the text is not a kind, or a kind and a number.
        """
        kind, colon, eps = text.partition(":")
        try:
            return cls(kind, float(eps) if colon else 0.0)
        except ValueError as error:
            msg = f"{text!r} is not a formula such as 'coefficient:1e-6'; the kinds are {', '.join(KINDS)}."
            raise ValueError(msg) from error

    def to_mapping(self) -> dict[str, Any]:
        """Return the mapping that :meth:`of` reads."""
        return {"kind": self.kind, **({"eps": self.eps} if self.eps else {})}

    @property
    def small(self) -> Fraction:
        """The number `eps`, exactly."""
        return Fraction(self.eps)

    def compute_threshold_shift(self) -> Fraction:
        """Return the number that is added to the norm before it is compared with the threshold."""
        return self.small if self.kind == "coefficient" else Fraction(0)

    def __str__(self) -> str:
        return f"{self.kind}, eps = {self.eps:g}" if self.eps else self.kind


#: The neutral rule: `c * X / norm(X)` above the threshold, `X` otherwise.
PLAIN = Formula()


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
