"""Define metamorphic relations between the results of two calls, or of one call and its input. They need no oracle.

A relation of two calls makes the second one from the first one and its results, and pairs the arrays of the two
answers. In exact arithmetic the two arrays of a pair are equal. In floating-point arithmetic each lies within the error
bound (see `bounds`) of the exact result, so they are at most two bounds apart. A clip by value rounds nothing, so its
results are equal. (The error of the first clip may leave the norm above the threshold. A second clip removes that error
and adds its own error.)

Scaling by a power of two is exact in every operation, as long as all numbers stay in the normal range. If results are
not equal bit for bit, the framework computes differently for other magnitudes. If the results are then at most two
bounds apart, the status is `quality`.

The relations of one call:

- *direction*: an element is rounded at most twice, in a quotient and in a product. So `result / input` is the same
  number for all elements that the same norm scales, to within 2 ulp of each result.
- *signs*: a result is zero or has the sign of its element.
- *bounded*: the norm of the result is at most `c (1 + k u / (1 - k u))`, where `k` is the number of errors that an
  element may have, plus half the smallest subnormal number for each element.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from types import MappingProxyType

from gradclip_adapters.contract import Array, Gradient, Reply
from gradclip_reports.statuses import Status

from ..cases.model import Case
from ..cases.readable import show_gradients
from ..oracle.arrays import decode
from ..oracle.formats import FORMATS, convert_to_dtype, divide_to_float, encode, ulp
from ..oracle.integers import compute_norm
from ..oracle.predict import predict
from ..oracle.question import list_norm_groups
from .model import Verdict

Arrays = tuple[Array | None, ...]


@dataclass(frozen=True)
class Relation:
    """A second call made from the first one, and the arrays of the two answers that must be the same."""

    #: The end of a sentence that begins with "In the second call".
    says: str
    #: Make the second call from the case, the results of the first call, and an exponent of two.
    second: Callable[[Case, Arrays, int], Case]
    #: Bring the second call's results into the order and form of the first call's results.
    back: Callable[[Case, Arrays], Arrays] = lambda _, second: second
    #: The condition, as a sentence.
    holds: str = "The results of the second call must equal the results of the first call."
    #: Whether the second call needs the results of the first call, and not only its gradients.
    of_results: bool = False


def _clip_again(case: Case, results: Arrays) -> Case:
    pairs = zip(case.gradients, results, strict=True)
    return replace(case, gradients=tuple(replace(g, array=_convert_to_its_dtype(got, g.array)) for g, got in pairs))


def _convert_to_its_dtype(got: Array | None, given: Array | None) -> Array | None:
    """Return a result in the dtype of its gradient. Another rule judges results of another dtype."""
    return None if got is None or given is None else Array(given.dtype, got.shape, convert_to_dtype(got, given.dtype))


def _scale(case: Case, exponent: int) -> Case:
    factor = 2.0**exponent
    gradients = tuple(replace(g, array=multiply_by_power_of_two(g.array, exponent)) for g in case.gradients)
    options = {n: v * factor if n in ("clip_norm", "min", "max") else v for n, v in case.options.items()}
    return replace(case, gradients=gradients, options=options)


def multiply_by_power_of_two(array: Array | None, exponent: int) -> Array | None:
    """Multiply each element by two to the power of `exponent`, and round it once to the dtype. None stays None.

    Parameters
    ----------
    array : Array or None
        An array of any dtype and shape.
    exponent : int
        The power of two.

    Returns
    -------
    Array or None
        The products, in the dtype and shape of the array.
    """
    if array is None:
        return None
    values = [value * Fraction(2) ** exponent for value in decode(array.data, array.dtype).list_fractions()]
    return Array(array.dtype, array.shape, encode(values, array.dtype))


def _split(case: Case) -> Case:
    return replace(case, gradients=tuple(half for gradient in case.gradients for half in _halve(gradient)))


def _halve(gradient: Gradient) -> Iterable[Gradient]:
    array = gradient.array
    assert array is not None
    width = len(array.data) // max(1, _count_elements(array))
    middle = _count_elements(array) // 2
    for name, first, last in (("a", 0, middle), ("b", middle, _count_elements(array))):
        half = Array(array.dtype, (last - first,), array.data[first * width : last * width])
        yield replace(gradient, name=gradient.name + name, array=half)


def _count_elements(array: Array) -> int:
    return math.prod(array.shape)


def _join(case: Case, second: Arrays) -> Arrays:
    pairs = zip(case.gradients, second[::2], second[1::2], strict=True)
    # The halves may come back in different dtypes.
    return tuple(
        None
        if a is None or b is None or g.array is None
        else replace(g.array, data=convert_to_dtype(a, g.array.dtype) + convert_to_dtype(b, g.array.dtype))
        for g, a, b in pairs
    )


#: The number of zeros that are added to a gradient.
ZEROS = 3


def _add_zeros(case: Case) -> Case:
    longer = []
    for gradient in case.gradients:
        array = gradient.array
        assert array is not None
        data = array.data + bytes(ZEROS * FORMATS[array.dtype].width // 8)
        longer.append(replace(gradient, array=Array(array.dtype, (_count_elements(array) + ZEROS,), data)))
    return replace(case, gradients=tuple(longer))


def _remove_zeros(case: Case, second: Arrays) -> Arrays:
    return tuple(
        None
        if got is None or g.array is None
        else Array(
            got.dtype, g.array.shape, got.data[: len(got.data) * _count_elements(g.array) // _count_elements(got)]
        )
        for g, got in zip(case.gradients, second, strict=True)
    )


def _add_others(case: Case, other: Gradient) -> Case:
    return replace(case, gradients=(other, *(each for g in case.gradients for each in (g, other))))


RELATIONS: Mapping[str, Relation] = MappingProxyType(
    {
        "twice": Relation(
            "the results of the first call are clipped again",
            lambda case, results, _: _clip_again(case, results),
            of_results=True,
        ),
        "scaled": Relation(
            "gradients and threshold are scaled by a power of two",
            lambda case, _, exponent: _scale(case, exponent),
            holds="The results of the second call must equal the results of the first call, scaled by the same power "
            "of two.",
        ),
        "reordered": Relation(
            "the gradients are passed in reverse order",
            lambda case, *_: replace(case, gradients=case.gradients[::-1]),
            lambda _, second: second[::-1],
            "The results of the second call, in the first order again, must equal the results of the first call.",
        ),
        "split": Relation(
            "each gradient is split in two",
            lambda case, *_: _split(case),
            _join,
            "The results of the second call, joined again, must equal the results of the first call.",
        ),
        "zeros-added": Relation(
            "zeros are added to each gradient",
            lambda case, *_: _add_zeros(case),
            _remove_zeros,
            "The results of the second call, without the added elements, must equal the results of the first call.",
        ),
        "excluded-added": Relation(
            "excluded gradients are inserted between the others",
            lambda case, *_: _add_others(case, Gradient("excluded", case.gradients[0].array, need_clip=False)),
            lambda _, second: second[1::2],
            "The results of the second call, without the excluded gradients, must equal the results of the first call.",
        ),
        "none-added": Relation(
            "gradients that are None are inserted between the others",
            lambda case, *_: _add_others(case, Gradient("none", None)),
            lambda _, second: second[1::2],
            "The results of the second call, without the added None, must equal the results of the first call.",
        ),
    }
)


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


def check_one(relation: str, case: Case, reply: Reply) -> Verdict:
    """Return whether a relation of one call holds. The gradients are finite, and so must the results be."""
    for i in case.included:
        got = reply.gradients[i]
        if got is not None and not decode(got.data, got.dtype).is_finite:
            return _fail(f"Gradient {i} was finite, and its result is not.", reply)
    return OF_ONE[relation].check(case, reply)


def _check_direction(case: Case, reply: Reply) -> Verdict:
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


def _check_signs(case: Case, reply: Reply) -> Verdict:
    for i, place, x, y, _ in _list_pairs(case, reply, case.included):
        if (x * y < 0) or (not x and y):
            detail = f"Element {place} of gradient {i} was {float(x):g} and is {float(y):g}: its sign is lost."
            return _fail(detail, reply)
    return Verdict(Status.PASS)


def _check_bounded(case: Case, reply: Reply) -> Verdict:
    threshold = Fraction(case.options["clip_norm"])
    for group in list_norm_groups(case):
        arrays = [array for i in group if (array := reply.gradients[i]) is not None]
        if not arrays:
            continue
        size = compute_norm([decode(array.data, array.dtype) for array in arrays], case.norm_type).lower
        errors, form = predict(case).errors[group[0]], FORMATS[arrays[0].dtype]
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


@dataclass(frozen=True)
class RelationOfOne:
    """A relation between the results of one call and its input."""

    #: The condition, as a sentence.
    holds: str
    check: Callable[[Case, Reply], Verdict]


OF_ONE: Mapping[str, RelationOfOne] = MappingProxyType(
    {
        "direction": RelationOfOne(
            "All elements that the same norm scales are multiplied by the same number, to within 2 ulp of the result, "
            "and zeros stay zero.",
            _check_direction,
        ),
        "signs": RelationOfOne(
            "Each result is zero or has the sign of its element, and zeros stay zero.",
            _check_signs,
        ),
        "bounded": RelationOfOne(
            "The norm of the results exceeds the threshold by no more than the elements' error bound.",
            _check_bounded,
        ),
    }
)
