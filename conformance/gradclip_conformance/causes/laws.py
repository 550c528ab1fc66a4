"""List the laws that functions follow in place of the right formula: another norm, or another factor.

A law gives the factor of each gradient. The factor is computed from exact norms, so the whole answer can be compared
within the error bound of the dtype's arithmetic.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np

from . import factors, norms
from .facts import AnsweredGroup, Factor, Seen, compute_plain_coefficient
from .model import Basis, Explanation

#: The rule that a law breaks if it changes the results of almost every call above the threshold.
ABOVE = "scaled-above"

#: The rule that a law breaks if it scales some gradients below the threshold.
BELOW = "identity-below"

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

    def compute_factor(self, group: AnsweredGroup) -> Fraction | None:
        """Return the factor of a gradient with a finite norm, or None if the law does not speak of it."""
        if self.factor is not None:
            return self.factor(group)
        norm = self.compute_norm(group)
        return None if norm is None else compute_plain_coefficient(norm, group.threshold)

    def compute_norm(self, group: AnsweredGroup) -> Fraction | None:
        """Return the norm of a gradient with a finite norm, or None if the law gives none."""
        compute = self.norm
        return None if compute is None else group.remember(self, lambda: compute(group))

    def reproduces(self, seen: Seen) -> bool:
        """Return whether the law gives every result of a call, and at least one that differs from the right one."""
        pairs = self._list_parts(seen)
        return all(self._reproduces_part(part) for part, _ in pairs) and any(self._differs(*pair) for pair in pairs)

    def _list_parts(self, seen: Seen) -> list[tuple[AnsweredGroup, AnsweredGroup]]:
        """Return the gradients that share a norm under this law, each with the group that shares the right norm."""
        return [(part, group) for group in seen.groups for part in (group.parts if self.is_of_each else [group])]

    def _reproduces_part(self, part: AnsweredGroup) -> bool:
        if part.total is not None:
            return part.is_right_for_nonfinite
        # A threshold below zero must be refused: another rule judges what else happens to it.
        if not part.threshold >= 0 or (self.loses_signs and any((one.after < 0).any() for one in part.distinct)):
            return False
        return self.scales(part)

    def scales(self, group: AnsweredGroup) -> bool:
        """Return whether the law gives the results of finite gradients."""
        # No factor makes a finite element NaN, and to compute the factor of a long list takes long.
        if any(np.isnan(one.after).any() for one in group.distinct):
            return False
        factor = self.compute_factor(group)
        if factor is None:
            return False
        return (group.take_magnitudes() if self.loses_signs else group).is_scaled_by(factor * group.seen.rate)

    def _differs(self, part: AnsweredGroup, group: AnsweredGroup) -> bool:
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
        return Explanation(self.cause, self.parameters, basis=Basis.PREDICTED)

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


def make_signed(eps: float) -> Law:
    """Return the law that adds powers of the elements with their signs, and adds an epsilon to the norm."""
    return Law("signed-powers", partial(factors.keep_signs, eps=eps), breaks=ABOVE)


#: The law of a norm that counts memory for a gradient without elements.
BESIDE_EMPTY = Law("empty-counted", factors.fit_beside_empty)

#: The causes of laws that also have other models, which one answer may show.
SHOWN_BY_ONE = frozenset({BESIDE_EMPTY.cause, "long-sum"})

#: The laws without a fitted number. Those that change the norm come first.
LAWS: tuple[Law, ...] = (
    Law("excluded-counted", norm=norms.count_excluded),
    Law("norms-misplaced", norm=norms.take_norm_of_other),
    Law("equal-counted-once", norm=norms.count_equal_gradients_once),
    Law("norm-of-each", norm=norms.scale_each, is_of_each=True, breaks=SEVERAL),
    Law(
        "norm-of-all",
        norm=norms.of_all(lambda one: not (one.is_global or one.divides_gradients or one.sums_examples)),
        breaks="each-tensor-alone",
    ),
    Law("norm-of-all", norm=norms.measure_example),
    Law("no-root", norm=norms.leave_out_root, breaks=ABOVE),
    Law("no-root", norm=norms.leave_out_root_of_scaled, breaks=ABOVE),
    Law("no-root", norm=norms.leave_out_root_of_average, breaks=ABOVE),
    Law("other-root", norm=norms.take_square_root),
    Law("mean-of-squares", norm=norms.take_mean, breaks=ABOVE),
    Law("norm-divided", norm=norms.average_over(lambda group: len(group.seen.case.gradients))),
    Law("norm-divided", norm=norms.average_over(lambda group: len(group.seen.case.included))),
    Law("other-average", norm=partial(norms.average_by, power=0.0), breaks=ABOVE),
    Law("other-average", norm=partial(norms.average_by, power=0.5), breaks=ABOVE),
    Law("other-average", norm=partial(norms.average_by, power=1.0), breaks=ABOVE),
    Law("count-off-by-one", norm=norms.average_over(lambda group: group.count - 1), breaks=ABOVE),
    Law("count-off-by-one", norm=norms.average_over(lambda group: group.count + 1), breaks=ABOVE),
    Law("mean-of-squares", norm=partial(norms.take_mean, less=1), breaks=ABOVE),
    Law("count-of-axis", norm=norms.average_over(partial(norms.count_along, axis=0))),
    Law("count-of-axis", norm=norms.average_over(partial(norms.count_along, axis=-1))),
    Law("count-of-axis", norm=norms.average_over(norms.count_other_axes)),
    Law("count-of-all", norm=norms.average_over(norms.count_all)),
    Law("count-overflow", norm=norms.divide_by_infinity),
    Law("zeros-not-counted", norm=norms.average_over(norms.count_nonzero)),
    Law("mean-subtracted", norm=norms.subtract_mean, breaks=ABOVE),
    Law("norm-of-matrix", norm=norms.take_norms_of_matrices),
    Law(
        "narrower-arithmetic", norm=partial(norms.round_elements, narrow="float32"), parameters=(("dtype", "float32"),)
    ),
    Law("mean-of-norms", norm=norms.of_several(lambda group, count: group.sum_of_norms / count), breaks=SEVERAL),
    *(
        Law("elements-left-out", norm=partial(norms.keep_elements, kept=slice(place)))
        for place in (2**20, 10**6, 2**16, -1)
    ),
    Law("elements-left-out", norm=partial(norms.keep_elements, kept=slice(1, None))),
    # It comes before the norm that leaves out a large gradient, which may change as little.
    Law("threshold-narrowed", factors.round_threshold_to_first),
    Law("gradients-left-out", norm=partial(norms.leave_out, kept=slice(1, None)), breaks=ABOVE),
    Law("gradients-left-out", norm=partial(norms.leave_out, kept=slice(-1)), breaks=ABOVE),
    Law("gradients-left-out", norm=partial(norms.leave_out, kept=slice(1)), breaks=ABOVE),
    Law("gradients-left-out", norm=partial(norms.leave_out, kept=slice(-1, None)), breaks=ABOVE),
    # Two equal examples are averaged, too. So this law comes first.
    Law("examples-merged", factors.count_equal_once),
    Law("examples-averaged", factors.average_examples),
    Law("examples-left-out", partial(factors.leave_out_example, place=0)),
    Law("examples-left-out", partial(factors.leave_out_example, place=-1)),
    # Where examples share no element, their sum has the norm of all examples together.
    Law("examples-summed-first", norm=norms.of_all(lambda one: one.sums_examples)),
    Law("threshold-divided", partial(factors.divide_threshold, power=1.0), is_of_each=True, breaks=SEVERAL),
    Law("threshold-divided", partial(factors.divide_threshold, power=0.5), is_of_each=True, breaks=SEVERAL),
    Law("threshold-divided", factors.multiply_by_share),
    Law("threshold-rounded", factors.round_threshold(math.floor), breaks=ABOVE),
    Law("threshold-rounded", factors.round_threshold(round), breaks=ABOVE),
    *(
        Law("threshold-rounded", factors.round_threshold(factors.cut_digits(digits)), breaks=ABOVE)
        for digits in range(3, 7)
    ),
    Law("eps-in-limit", factors.limit_parameter(lambda norm, eps, factor: (norm + eps) * factor)),
    Law("eps-in-limit", factors.limit_parameter(lambda norm, eps, factor: max(norm * factor, eps))),
    Law("eps-ignored", factors.limit_parameter(lambda norm, _, factor: norm * factor)),
    Law("eps-ignored", factors.limit_parameter(lambda norm, _, factor: max(norm, Fraction(1e-3)) * factor)),
    Law("no-root", factors.limit_parameter(lambda norm, eps, factor: max(norm**2, eps) * factor)),
    Law("parameter-left-out", factors.limit_parameter(lambda _, __, factor: factor)),
    Law("parameter-left-out", factors.scale_to_clip_factor),
    Law("whole-parameter", factors.limit_parameter(lambda norm, eps, factor: max(norm, eps) * factor, of_whole=True)),
    Law("signs-lost", AnsweredGroup.compute_coefficient, loses_signs=True, breaks=ABOVE),
    Law("threshold-tolerance", factors.tolerate, keeps=ABOVE),
    *(
        Law("coefficient-rounded", factors.change_above(factors.round_coefficient(digits)), breaks=ABOVE)
        for digits in range(1, 9)
    ),
    Law("sum-of-norms", norm=norms.of_several(lambda group, _: group.sum_of_norms), breaks=SEVERAL),
    Law("sum-of-norms", norm=norms.add_norms_below_root, breaks=ABOVE),
    Law("largest-of-norms", norm=norms.of_several(lambda group, _: max(group.norms)), breaks=SEVERAL),
    Law("norm-divided", norm=norms.of_several(lambda group, count: group.norm / count), breaks=SEVERAL),
    Law(
        "norm-divided",
        norm=norms.of_several(lambda group, count: group.norm / Fraction(math.sqrt(count))),
        breaks=SEVERAL,
    ),
    *(
        Law(
            "other-order",
            norm=partial(norms.use_other_order, order=order),
            parameters=(("order", f"{order:g}"),),
            breaks=ABOVE,
        )
        for order in (2.0, 1.0, math.inf, 3.0, 4.0)
    ),
    Law("infinity-norm-one", norm=norms.take_root_of_infinite_order),
    *(Law("norms-joined", norm=partial(norms.join_by, order=order)) for order in (2.0, 1.0, math.inf)),
    Law("signed-powers", norm=norms.take_largest_element),
    Law("signed-powers", norm=norms.take_magnitude_of_sum, breaks=ABOVE),
    make_signed(0.0),
    Law("long-sum", norm=partial(norms.add_in_turn, dtype=np.float32)),
    Law("long-sum", norm=partial(norms.add_in_turn, dtype=np.float16)),
    Law("always-scales", factors.scale_always),
    Law("other-comparison", factors.compare_otherwise(factors.is_power_above), breaks=BELOW),
    Law(
        "other-comparison", factors.compare_otherwise(lambda group, threshold: group.norm > threshold**2), breaks=BELOW
    ),
    Law("other-comparison", factors.compare_otherwise(lambda group, _: group.norm > 1), breaks=BELOW),
    Law("gradual-coefficient", factors.scale_gradually, breaks=ABOVE),
    Law("coefficient-kept", factors.keep_coefficient),
    Law("sign-flipped", factors.change_above(lambda right, _: -right), breaks=ABOVE),
    Law("scaled-twice", factors.change_above(lambda right, _: right * right), breaks=ABOVE),
    Law(
        "coefficient-inverted", factors.change_above(lambda right, _: 1 / right if right else Fraction(0)), breaks=ABOVE
    ),
    Law("unit-norm", factors.change_above(lambda _, group: 1 / group.norm), breaks=ABOVE),
    BESIDE_EMPTY,
)
