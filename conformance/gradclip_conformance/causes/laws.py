"""List the laws that functions follow in place of the right formula: another norm, or another factor."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np

from . import factors, norms
from .facts import Group
from .law import ABOVE, SEVERAL, Law

__all__ = ["BESIDE_EMPTY", "LAWS", "SHOWN_BY_ONE", "make_signed"]


def make_signed(eps: float) -> Law:
    """Return the law that adds powers of the elements with their signs, and adds an epsilon to the norm."""
    return Law("signed-powers", factors.keep_signs(eps), breaks=ABOVE)


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
    Law("mean-of-squares", norm=norms.take_mean(0), breaks=ABOVE),
    Law("other-average", norm=norms.average_by(0.0), breaks=ABOVE),
    Law("other-average", norm=norms.average_by(0.5), breaks=ABOVE),
    Law("other-average", norm=norms.average_by(1.0), breaks=ABOVE),
    Law("count-off-by-one", norm=norms.average_over(lambda group: group.count - 1), breaks=ABOVE),
    Law("count-off-by-one", norm=norms.average_over(lambda group: group.count + 1), breaks=ABOVE),
    Law("mean-of-squares", norm=norms.take_mean(1), breaks=ABOVE),
    Law("count-of-axis", norm=norms.count_along(0)),
    Law("count-of-axis", norm=norms.count_along(-1)),
    Law("count-of-axis", norm=norms.average_over(norms.count_other_axes)),
    Law("count-of-all", norm=norms.average_over(norms.count_all)),
    Law("count-overflow", norm=norms.divide_by_infinity),
    Law("zeros-not-counted", norm=norms.average_over(norms.count_nonzero)),
    Law("mean-subtracted", norm=norms.subtract_mean, breaks=ABOVE),
    Law("norm-of-matrix", norm=norms.take_norms_of_matrices),
    Law("narrower-arithmetic", factors.round_elements("float32"), parameters=(("dtype", "float32"),)),
    Law("mean-of-norms", norm=norms.of_several(lambda group, count: group.sum_of_norms / count), breaks=SEVERAL),
    *(Law("elements-left-out", norm=norms.leave_out_from(place)) for place in (2**20, 10**6, 2**16)),
    # It comes before the norm that leaves out a large gradient, which may change as little.
    Law("threshold-narrowed", factors.round_threshold_to_first),
    Law("gradients-left-out", norm=norms.leave_out(slice(1, None)), breaks=ABOVE),
    Law("gradients-left-out", norm=norms.leave_out(slice(-1)), breaks=ABOVE),
    Law("gradients-left-out", norm=norms.leave_out(slice(1)), breaks=ABOVE),
    Law("gradients-left-out", norm=norms.leave_out(slice(-1, None)), breaks=ABOVE),
    # Two equal examples are averaged, too. So this law comes first.
    Law("examples-merged", factors.count_equal_once),
    Law("examples-averaged", factors.average_examples),
    # Where examples share no element, their sum has the norm of all examples together.
    Law("examples-summed-first", norm=norms.of_all(lambda one: one.sums_examples)),
    Law("threshold-divided", factors.divide_threshold(1.0), is_of_each=True, breaks=SEVERAL),
    Law("threshold-divided", factors.divide_threshold(0.5), is_of_each=True, breaks=SEVERAL),
    Law("threshold-divided", factors.multiply_by_share),
    Law("threshold-rounded", factors.round_threshold(math.floor), breaks=ABOVE),
    Law("threshold-rounded", factors.round_threshold(round), breaks=ABOVE),
    Law("threshold-rounded", factors.round_threshold(math.ceil), breaks=ABOVE),
    *(
        Law("threshold-rounded", factors.round_threshold(factors.cut_digits(digits)), breaks=ABOVE)
        for digits in range(3, 7)
    ),
    Law("eps-in-limit", factors.limit_parameter(lambda norm, eps, factor: (norm + eps) * factor)),
    Law("eps-in-limit", factors.limit_parameter(lambda norm, eps, factor: max(norm * factor, eps))),
    Law("eps-ignored", factors.limit_parameter(lambda norm, _, factor: norm * factor)),
    Law("eps-ignored", factors.limit_parameter(lambda norm, _, factor: max(norm, Fraction(1e-3)) * factor)),
    Law("whole-parameter", factors.limit_parameter(lambda norm, eps, factor: max(norm, eps) * factor, of_whole=True)),
    Law("signs-lost", Group.compute_coefficient, loses_signs=True, breaks=ABOVE),
    Law("threshold-tolerance", factors.tolerate(Fraction(1)), keeps=ABOVE),
    Law("threshold-tolerance", factors.tolerate(Fraction(1, 100)), keeps=ABOVE),
    *(
        Law("coefficient-rounded", factors.change_above(factors.round_coefficient(digits)), breaks=ABOVE)
        for digits in range(1, 9)
    ),
    Law("sum-of-norms", norm=norms.of_several(lambda group, _: group.sum_of_norms), breaks=SEVERAL),
    Law("largest-of-norms", norm=norms.of_several(lambda group, _: max(group.norms)), breaks=SEVERAL),
    Law("norm-divided", norm=norms.of_several(lambda group, count: group.norm / count), breaks=SEVERAL),
    Law(
        "norm-divided",
        norm=norms.of_several(lambda group, count: group.norm / Fraction(math.sqrt(count))),
        breaks=SEVERAL,
    ),
    *(
        Law("other-order", norm=norms.use_other_order(order), parameters=(("order", f"{order:g}"),), breaks=ABOVE)
        for order in (2.0, 1.0, math.inf, 3.0, 4.0)
    ),
    *(Law("norms-joined", norm=norms.join_by(order)) for order in (2.0, 1.0, math.inf)),
    Law("signed-powers", norm=norms.take_largest_element),
    Law("signed-powers", norm=norms.take_magnitude_of_sum, breaks=ABOVE),
    make_signed(0.0),
    Law("long-sum", norm=norms.add_in_turn(np.float32)),
    Law("long-sum", norm=norms.add_in_turn(np.float16)),
    Law("always-scales", factors.scale_always),
    Law("coefficient-kept", factors.keep_coefficient),
    Law("sign-flipped", factors.change_above(lambda right, _: -right), breaks=ABOVE),
    Law("scaled-twice", factors.change_above(lambda right, _: right * right), breaks=ABOVE),
    Law(
        "coefficient-inverted", factors.change_above(lambda right, _: 1 / right if right else Fraction(0)), breaks=ABOVE
    ),
    Law("unit-norm", factors.change_above(lambda _, group: 1 / group.norm), breaks=ABOVE),
    BESIDE_EMPTY,
)
