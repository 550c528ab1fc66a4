r"""Compute the error bounds by which answers are judged, in ulp.

Let :math:`u` be half the spacing of a dtype's numbers above 1, and `p` the order of the norm. One operation has a
relative error of at most `u`, and a relative error of `k u` is less than `k` ulp at the exact value, whatever its place
in the binade. The errors of `k` operations in a product or a quotient give at most :math:`k u / (1 - k u)` (Higham,
Accuracy and Stability of Numerical Algorithms, lemma 3.1).

*The norm* is computed in the dtype itself, in two levels, as in the formula
:math:`\sqrt{\sum_i \mathrm{norm}(X[i])^2}`. Each level takes powers, a sum and a root. The first level takes them over
the elements of a tensor, and the second level over the norms of the tensors. A sum of `n` terms that are not negative,
in any order, has a relative error of at most `(n - 1) u`, for any `n` and without terms of second order (Jeannerod and
Rump, SIAM J. Matrix Anal. Appl. 34, 2013). Below, `n` is the number of nonzero elements of all tensors. An element
passes through at most `n` additions in both levels together, because zeros and empty tensors add exact zeros. If `s` is
the error of one power and `r` is the error of one root, the sum under the last root has the error

.. math:: x = (n + 1 + 2 s + p r) u,

and the norm and its inverse have the error :math:`(1 - x)^{-1/p} (1 + r u) - 1`. A square and a square root are rounded
correctly: `s = r = 1`. The orders 1 and infinity need neither: `s = r = 0`. A general power is assumed to be within one
ulp: `s = 2`. The root's exponent `1/p` is itself rounded, which adds the logarithm of the norm `N`: `r = 2 + |ln N|`.

*Too many elements.* If `x` reaches 1, no bound holds for a sum in the dtype: the sum may have stopped growing, or left
the range. For half precision, a rule forbids such a sum. A right function may then add up the rounded powers in the
next wider format, whose unit is `v`, and round each tensor's norm and the total norm to the dtype:

.. math:: x = 2 s u + (n + 1 + 2 p r) v.

*An average* divides the norm by the number of elements or by its root. The root and the quotient are rounded: `a = 2`
errors more, after the last root. No other norm has them: `a = 0`.

*A careful norm* sums in a wider format, or in blocks, and rounds each tensor's norm and the total norm.

*The threshold of a unitwise clip* is a product with the norm of a parameter. It has the error of that norm, and
`u` more. The quotient of both norms, whose relative errors are `a` and `b`, has an error of at most `a + b + a b`.

*An element* needs one more quotient and one more product, in any order.

The bounds assume that no intermediate result leaves the range; other rules cover that.
"""

from __future__ import annotations

import math

from .formats import Format
from .model import ErrorBounds

__all__ = ["NOTHING", "add_parameter_errors", "compute_error_bounds"]


#: The bounds for operations that round nothing.
NOTHING = ErrorBounds(0.0, 0.0, 0.0, 0.0)

#: The errors of a quotient and a product.
SCALING = 2.0

#: The errors of the division of an average.
AVERAGING = 2.0

#: For each precision, the precision of the wider format that sums too many elements.
WIDER = {8: 24, 11: 24, 24: 53}


def compute_error_bounds(
    form: Format, p: float, elements: int, norm: float, *, is_average: bool = False
) -> ErrorBounds:
    """Return the bounds for a norm of order `p` over a number of elements, and for the elements that it scales."""
    unit = 2.0**-form.precision
    power, root = _count_costs(p, norm)
    dividing = AVERAGING if is_average else 0.0
    # A careful norm is rounded twice. For a general order, each rounding includes a power and a root.
    careful = (2.0 if p in (1.0, 2.0) else 2.0 * (power / p + root)) + dividing
    in_the_dtype = 0.0
    if p != math.inf:
        doubt, last = (elements + 1 + 2 * power + p * root) * unit, (root + dividing) * unit
        if doubt >= 1 and form.precision in WIDER:
            wider = 2.0 ** -WIDER[form.precision]
            doubt = 2 * power * unit + (elements + 1 + 2 * p * root) * wider
            last = _add_second_order(careful, unit) * unit
        in_the_dtype = _bound_norm(doubt, p, last) / unit if doubt < 1 else math.inf
    return ErrorBounds(
        _add_second_order(careful, unit),
        _add_second_order(careful + SCALING, unit),
        max(in_the_dtype, _add_second_order(careful, unit)),
        _add_second_order(max(in_the_dtype, careful) + SCALING, unit),
    )


def add_parameter_errors(form: Format, errors: ErrorBounds, others: ErrorBounds) -> ErrorBounds:
    """Return the bounds if the threshold is a multiple of a parameter's norm, which has the errors `others`."""
    unit = 2.0**-form.precision
    budget, bound = others.norm_budget + 1.0, others.norm_bound + 1.0
    return ErrorBounds(
        *(
            own + more + own * more * unit
            for own, more in (
                (errors.norm_budget, budget),
                (errors.clip_budget, budget),
                (errors.norm_bound, bound),
                (errors.clip_bound, bound),
            )
        )
    )


def _bound_norm(doubt: float, p: float, root: float) -> float:
    """Return the relative error of a norm, given the relative errors of the sum of powers (`doubt`) and of the root."""
    return math.expm1(math.log1p(root) - math.log1p(-doubt) / p)


def _count_costs(p: float, norm: float) -> tuple[float, float]:
    """Return the errors of one power and of one root, in units of `u`."""
    if p in (1.0, math.inf):
        return 0.0, 0.0
    if p == 2.0:
        return 1.0, 1.0
    return 2.0, 2.0 + (abs(math.log(norm)) if 0 < norm < math.inf else 0.0)


def _add_second_order(count: float, unit: float) -> float:
    """Return the bound, in ulp, for a number of errors of `u`."""
    return count / (1 - count * unit) if count * unit < 1 else math.inf
