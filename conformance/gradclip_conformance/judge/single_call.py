"""Define metamorphic relations between the results of one call and its input. The elements need no oracle.

- *direction*: an element is rounded at most twice, in a quotient and in a product. So `result / input` is the same
  number for all elements that the same norm scales, to within 2 ulp of each result.
- *signs*: a result is zero or has the sign of its element.
- *bounded*: the norm of the result is at most `c (1 + k u / (1 - k u))`, where `k` is the number of errors that an
  element may have, plus half the smallest subnormal number for each element.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from types import MappingProxyType

from gradclip_adapters.contract import Reply
from gradclip_reports.statuses import Status

from ..cases.model import Case
from ..cases.readable import show_gradients
from ..oracle.arrays import decode
from ..oracle.formats import FORMATS, convert_to_dtype, divide_to_float, ulp
from ..oracle.integers import compute_norm as exact_norm
from ..oracle.model import Prediction
from ..oracle.question import list_norm_groups
from .model import Verdict

__all__ = ["HOLDS", "OF_ONE", "check_one"]


def _list_pairs(case: Case, reply: Reply, group: Sequence[int]) -> list[tuple[int, int, Fraction, Fraction, Fraction]]:
    """Return, for each element of a group: gradient, place, element, result, and the result's ulp."""
    found = []
    for i in group:
        given, got = case.gradients[i].array, reply.gradients[i]
        if given is None or got is None:
            continue
        form = FORMATS[given.dtype]
        results = decode(convert_to_dtype(got, given.dtype), given.dtype)
        elements = zip(decode(given.data, given.dtype).list_fractions(), results.list_fractions(), strict=True)
        found += [(i, place, x, y, ulp(y, form)) for place, (x, y) in enumerate(elements)]
    return found


def _fail(detail: str, reply: Reply) -> Verdict:
    return Verdict(Status.FAIL, detail, observed=show_gradients(reply.gradients))


def check_one(relation: str, case: Case, reply: Reply, prediction: Prediction) -> Verdict:
    """Return whether a relation holds. The gradients are finite, and so must the results be."""
    for i in case.included:
        got = reply.gradients[i]
        if got is not None and not decode(got.data, got.dtype).is_finite:
            return _fail(f"Gradient {i} was finite, and its result is not.", reply)
    return OF_ONE[relation](case, reply, prediction)


def _check_direction(case: Case, reply: Reply, prediction: Prediction) -> Verdict:
    del prediction
    for group in list_norm_groups(case):
        least = most = None
        for i, place, x, y, spacing in _list_pairs(case, reply, group):
            if not x:
                if y:
                    detail = f"Element {place} of gradient {i} was zero and is {float(y):g}."
                    return _fail(detail, reply)
                continue
            # The rounding of this element allows factors between these two.
            low, high = (abs(y) - 2 * spacing) / abs(x), (abs(y) + 2 * spacing) / abs(x)
            sign = -1 if x * y < 0 else 1
            low, high = (low, high) if sign > 0 else (-high, -low)
            least = low if least is None else max(least, low)
            most = high if most is None else min(most, high)
            if least > most:
                detail = (
                    f"Element {place} of gradient {i} is multiplied by {float(y / x):.9g}, and the elements before it "
                    "by another number. Rounding does not explain the difference: the direction has changed."
                )
                return _fail(detail, reply)
    return Verdict(Status.PASS)


def _check_signs(case: Case, reply: Reply, prediction: Prediction) -> Verdict:
    del prediction
    for i, place, x, y, _ in _list_pairs(case, reply, case.included):
        if (x * y < 0) or (not x and y):
            detail = f"Element {place} of gradient {i} was {float(x):g} and is {float(y):g}: its sign is lost."
            return _fail(detail, reply)
    return Verdict(Status.PASS)


def _check_bounded(case: Case, reply: Reply, prediction: Prediction) -> Verdict:
    threshold = Fraction(case.options["clip_norm"])
    for group in list_norm_groups(case):
        arrays = [array for i in group if (array := reply.gradients[i]) is not None]
        if not arrays:
            continue
        size = exact_norm([decode(array.data, array.dtype) for array in arrays], case.norm_type).lower
        errors, form = prediction.errors[group[0]], FORMATS[arrays[0].dtype]
        slack = sum(math.prod(array.shape) for array in arrays) * form.smallest_subnormal / 2
        unit = Fraction(1, 2**form.precision)
        # The errors already include terms of second order.
        limits = [threshold * (1 + Fraction(k) * unit) + slack for k in (errors.clip_budget, errors.clip_bound)]
        if size > limits[0]:
            shown = divide_to_float(size, Fraction(1))
            ratio = divide_to_float(size, threshold) if threshold else math.inf
            detail = f"The norm of the result is {shown:.9g}, {ratio:.9g} times the threshold."
            status = Status.QUALITY if size <= limits[1] else Status.FAIL
            return Verdict(status, detail, expected=float(threshold), observed=show_gradients(reply.gradients))
    return Verdict(Status.PASS)


#: The checks, by the name that a case gives.
OF_ONE: Mapping[str, Callable[[Case, Reply, Prediction], Verdict]] = MappingProxyType(
    {"direction": _check_direction, "signs": _check_signs, "bounded": _check_bounded}
)

#: The conditions, as sentences.
HOLDS: Mapping[str, str] = MappingProxyType(
    {
        "direction": "All elements that the same norm scales are multiplied by the same number, to within 2 ulp of the "
        "result, and zeros stay zero.",
        "signs": "Each result is zero or has the sign of its element, and zeros stay zero.",
        "bounded": "The norm of the results exceeds the threshold by no more than the elements' error bound.",
    }
)
