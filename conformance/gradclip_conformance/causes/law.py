"""Define a law: a rule for the factor of each gradient, which another formula than the right one gives.

The factor is computed from exact norms, so the whole answer can be compared within the error bound of the dtype's
arithmetic.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from .facts import Group, Seen, compute_plain_coefficient
from .model import Explanation

__all__ = ["ABOVE", "SEVERAL", "Factor", "Law"]

Factor = Callable[[Group], Fraction | None]

#: The rule that a law breaks if it changes the results of almost every call above the threshold.
ABOVE = "scaled-above"

#: The rule that a law breaks if it changes the results of almost every call with several gradients.
SEVERAL = "one-norm-over-all"


@dataclass(frozen=True)
class Law:
    """A rule for the factor of a gradient, with its cause in the catalogue."""

    cause: str
    factor: Factor | None = None
    #: The norm that takes the place of the right one, if the law gives no factor. A function may return it, too.
    norm: Factor | None = None
    #: Whether each gradient has its own norm.
    is_of_each: bool = False
    #: The fitted numbers, which the explanation shows.
    parameters: tuple[tuple[str, Any], ...] = ()
    #: Whether results are magnitudes.
    loses_signs: bool = False
    #: The rule, without its operation, that every function with this law breaks, or an empty text. A function that
    #: keeps the rule does not have the law.
    breaks: str = ""
    #: The rule that every function with this law keeps, or an empty text.
    keeps: str = ""

    def compute_factor(self, group: Group) -> Fraction | None:
        """Return the factor of a gradient with a finite norm, or None if the law does not speak of it."""
        if self.factor is not None:
            return self.factor(group)
        norm = self.compute_norm(group)
        return None if norm is None else compute_plain_coefficient(norm, group.threshold)

    def compute_norm(self, group: Group) -> Fraction | None:
        """Return the norm of a gradient with a finite norm, or None if the law gives none."""
        compute = self.norm
        return None if compute is None else group.remember(self, lambda: compute(group))

    def reproduces(self, seen: Seen) -> bool:
        """Return whether the law gives every result of a call, and at least one that differs from the right one."""
        pairs = self._list_parts(seen)
        return all(self._reproduces_part(part) for part, _ in pairs) and any(self._differs(*pair) for pair in pairs)

    def _list_parts(self, seen: Seen) -> list[tuple[Group, Group]]:
        """Return the gradients that share a norm under this law, each with the group that shares the right norm."""
        return [(part, group) for group in seen.groups for part in (group.parts if self.is_of_each else [group])]

    def _reproduces_part(self, part: Group) -> bool:
        if part.total is not None:
            return part.is_right_for_nonfinite
        # A threshold below zero must be refused: another rule judges what else happens to it.
        if not part.threshold >= 0 or (self.loses_signs and any((one.after < 0).any() for one in part.distinct)):
            return False
        return self.scales(part)

    def scales(self, group: Group) -> bool:
        """Return whether the law gives the results of finite gradients."""
        # No factor makes a finite element NaN, and to compute the factor of a long list takes long.
        if any(np.isnan(one.after).any() for one in group.distinct):
            return False
        factor = self.compute_factor(group)
        if factor is None:
            return False
        return (group.take_magnitudes() if self.loses_signs else group).is_scaled_by(factor * group.seen.rate)

    def _differs(self, part: Group, group: Group) -> bool:
        """Return whether the factor differs from the right one by more than a rounding, or the signs are lost."""
        if part.total is not None:
            return False
        if self.loses_signs:
            return any((one.before < 0).any() for one in part.distinct)
        if group.total is not None:
            return True
        factor, right = self.compute_factor(part), group.compute_coefficient()
        return factor is None or right is None or abs(factor - right) * 2**group.coarsest > abs(right) / 2

    def explain(self) -> Explanation:
        """Return the explanation by this law."""
        return Explanation(self.cause, self.parameters)

    def speaks_of(self, seen: Seen) -> bool:
        """Return whether the law gives a result of a call that differs from the right one by more than rounding."""
        if self.loses_signs:
            return any((tensor.before < 0).any() for group in seen.groups for tensor in group.distinct)
        for part, group in self._list_parts(seen):
            if part.total is None:
                factor, right = self.compute_factor(part), group.compute_coefficient()
                # A rounding to bfloat16, the coarsest format, changes a number by at most 1 / 256 of it.
                if factor is not None and right is not None and abs(factor - right) > right * Fraction(1, 128):
                    return True
        return False
