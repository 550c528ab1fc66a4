"""Define the formulas by which frameworks scale gradients."""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

__all__ = ["PLAIN", "Formula"]

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
        """Return the formula that an adapter, a claim or a pin gives as a mapping."""
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
