"""Predict the result of a call under a formula, with both oracles.

The oracles must agree; if one of them cannot answer, the other answers alone. The first, `integers`, is always there.
The second, `balls`, needs python-flint. The neutral rule is the formula `PLAIN`; a framework may have another one.
Predictions are cached, because the answers of all entry points are compared with the same predictions.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from functools import lru_cache
from importlib.metadata import version
from itertools import combinations
from types import ModuleType
from typing import Any

from gradclip_adapters.contract import Array
from gradclip_adapters.mesh import Mesh, cut_array, find_placement, is_held, parse_mesh
from gradclip_adapters.operations import OPERATIONS

from . import integers
from .arrays import clip_long_by_value, decode
from .asked import Asked
from .bounds import NOTHING
from .formats import Format, compute_power_of_two, decode_bits, divide_to_float, round_to, ulp
from .formula import PLAIN, Formula
from .groups import Group, count_terms, make_group
from .long_integers import LongIntegers
from .model import Clipped, DyadicArray, Enclosure, ErrorBounds, ExpectedArray, Prediction
from .question import Question, count_elements, get_bounds, list_norm_groups


def _import_second() -> ModuleType | None:
    try:
        from . import balls
    except ImportError:
        return None
    return balls


SECOND = _import_second()

#: The second oracle is not asked about more elements than this. It takes them one by one, and more elements of the
#: same kinds cannot reveal another fault of the first oracle.
MANY = 512

#: Predictions of at most this many elements are cached for all entry points of a framework. Of larger ones, the last
#: ones are kept, with about this many elements in all.
FEW, HELD = 256, 1 << 18


class OraclesDisagreeError(Exception):
    """The two oracles contradict each other, which is a fault of the suite."""


def name_second_oracle() -> str:
    """Return the library of the second oracle and its version, for the header of a record."""
    return "not installed" if SECOND is None else f"python-flint {version('python-flint')}"


def _clip_by_norm(
    tensors: Sequence[DyadicArray | None],
    included: Sequence[bool],
    threshold: float | Fraction,
    p: float,
    formula: Formula,
    divisor: int,
) -> Clipped:
    """Return the expected clip of finite gradients by their common norm.

    Raises
    ------
    OraclesDisagreeError
        If the oracles contradict each other.
    NoExactNormError
        For an order that integers do not support, if the second oracle is not installed.
    """
    arguments = (tensors, threshold, p, included, formula, divisor)
    try:
        first = integers.clip_by_global_norm(*arguments)
    except integers.NoExactNormError:
        if SECOND is None:
            raise
        alone: Clipped = SECOND.clip_by_global_norm(*arguments)
        return alone
    if SECOND is not None and sum(len(tensor) for tensor in tensors if tensor is not None) <= MANY:
        problem = SECOND.describe_disagreement(first, SECOND.clip_by_global_norm(*arguments))
        if problem is not None:
            msg = f"The two oracles disagree on norm type {p:g} and threshold {float(threshold)!r}: {problem}."
            raise OraclesDisagreeError(msg)
    return first


def _clip_by_value(values: DyadicArray, low: float, high: float) -> ExpectedArray:
    """Return the expected clip by value. An infinite bound has no effect on finite elements.

    Raises
    ------
    OraclesDisagreeError
        If the oracles contradict each other.
    """
    if isinstance(values.integers, LongIntegers):
        return clip_long_by_value(values, low, high)
    # Replace an infinite bound by a finite one that no finite element reaches.
    reach = (1 + max(map(abs, values.integers), default=0)) * compute_power_of_two(values.exponent)
    beyond = reach + max((abs(Fraction(bound)) for bound in (low, high) if math.isfinite(bound)), default=Fraction(0))
    bounds = [bound if math.isfinite(bound) else beyond * (1 if bound > 0 else -1) for bound in (low, high)]
    first = integers.clip_by_value(values, *bounds)
    if SECOND is not None and len(values) <= MANY and not _is_same(first, SECOND.clip_by_value(values, *bounds)):
        msg = f"The two oracles disagree on the clip by value to [{low}, {high}]."
        raise OraclesDisagreeError(msg)
    kept = {place: value for place, value in values.special.items() if value in (low, high)}
    return replace(first, values=replace(first.values, special={**first.values.special, **kept})) if kept else first


def _is_same(first: ExpectedArray, second: ExpectedArray) -> bool:
    """Return whether two expectations hold the same numbers, by cross multiplication."""
    one, other = (expected.values.exponent for expected in (first, second))
    lowest = min(one, other)
    left = first.factor.numerator * second.factor.denominator << (one - lowest)
    right = second.factor.numerator * first.factor.denominator << (other - lowest)
    places = (first.values.special.keys(), second.values.special.keys())
    return places[0] == places[1] and all(
        a * left == b * right for a, b in zip(first.values.integers, second.values.integers, strict=True)
    )


def decode_gradients(case: Question, neutral: Prediction | None = None) -> list[DyadicArray | None]:
    """Return the gradients of a case, exactly. Equal gradients share an object, also with a prediction by norm."""
    arrays = [gradient.array for gradient in case.gradients]
    known = () if neutral is None else zip(arrays, neutral.gradients, strict=True)
    exact = {array: expected.values for array, expected in known if expected is not None}
    for array in arrays:
        if array is not None and array not in exact:
            exact[array] = decode(array.data, array.dtype)
    return [None if array is None else exact[array] for array in arrays]


def predict(question: Question, formula: Formula = PLAIN) -> Prediction:
    """Return the result of a formula for a call's gradients, included and excluded.

    Raises
    ------
    OraclesDisagreeError
        If the two oracles contradict each other.
    """
    neutral = None if formula == PLAIN else predict(question)
    elements, asked = count_elements(question), Asked(question, formula, neutral)
    return _predict_small(asked) if elements <= FEW else _large.get(asked, elements)


def _predict(asked: Asked) -> Prediction:
    if not OPERATIONS[asked.question.operation].is_by_norm:
        return _predict_by_value(asked.question)
    return _predict_by_norm(asked.question, asked.formula, asked.neutral)


class _LargePredictions:
    """The last predictions of many elements. An exact element takes up to 50 bytes, so they may hold `HELD`."""

    def __init__(self) -> None:
        self._known: dict[Asked, tuple[Prediction, int]] = {}
        #: The suite judges in one thread for each job.
        self._lock = threading.Lock()

    def get(self, asked: Asked, elements: int) -> Prediction:
        """Return a prediction, which has this number of elements."""
        with self._lock:
            if asked in self._known:
                return self._known[asked][0]
            # Make room first, so that the old and the new ones are not in memory together.
            while self._known and elements + sum(count for _, count in self._known.values()) > HELD:
                del self._known[next(iter(self._known))]
            self._known[asked] = _predict(asked), elements
            return self._known[asked][0]


_predict_small = lru_cache(maxsize=1024)(_predict)
_large = _LargePredictions()


def _predict_by_value(case: Question) -> Prediction:
    tensors, flags = decode_gradients(case), _list_included(case)
    low, high = get_bounds(case)
    if math.isnan(low) or math.isnan(high) or low > high:
        return _predict_nothing(tensors, flags)
    rate = Fraction(case.options.get("learning_rate", 1.0))
    # A case may have thousands of gradients, many of them the same.
    known: dict[tuple[Array | None, bool], ExpectedArray | None] = {}
    keys = [(gradient.array, flag) for gradient, flag in zip(case.gradients, flags, strict=True)]
    for key, tensor in zip(keys, tensors, strict=True):
        if key not in known:
            known[key] = _clip_one_by_value(tensor, low, high, included=key[1], rate=rate)
    count = len(tensors)
    return Prediction(tuple(known[key] for key in keys), (None,) * count, (False,) * count, (NOTHING,) * count)


def _clip_one_by_value(
    tensor: DyadicArray | None, low: float, high: float, *, included: bool, rate: Fraction
) -> ExpectedArray | None:
    if tensor is None:
        return None
    return (_clip_by_value(tensor, low, high) if included else ExpectedArray(tensor)).multiply_by(rate)


def _predict_nothing(tensors: Sequence[DyadicArray | None], flags: Sequence[bool]) -> Prediction:
    """Return a prediction that leaves the included gradients open, and expects the excluded ones to be unchanged."""
    kept = tuple(
        None if tensor is None or flag else ExpectedArray(tensor) for tensor, flag in zip(tensors, flags, strict=True)
    )
    count = len(tensors)
    return Prediction(kept, (None,) * max(count, 1), (False,) * count, (NOTHING,) * count)


def _predict_by_norm(case: Question, formula: Formula, neutral: Prediction | None) -> Prediction:
    tensors, flags = decode_gradients(case, neutral), _list_included(case)
    if OPERATIONS[case.operation].is_global:
        return _predict_group(make_group(case, case.included), tensors, flags, formula)
    sums_examples = OPERATIONS[case.operation].sums_examples
    # A case may have thousands of gradients, many of them the same.
    known: dict[tuple[Any, ...], Prediction] = {}
    found: dict[int, tuple[Prediction, int]] = {}
    for members in list_norm_groups(case) if sums_examples else [[i] for i in range(len(tensors))]:
        group, included = make_group(case, members), [flags[i] for i in members]
        key = (*(case.gradients[i].array for i in members), *included, group.parameter, group.share)
        if key not in known:
            known[key] = _predict_group(group, [tensors[i] for i in members], included, formula)
        found.update({i: (known[key], place) for place, i in enumerate(members)})
    every = [found[i] for i in range(len(tensors))]
    return Prediction(
        tuple(one.gradients[place] for one, place in every),
        tuple(one.norms[place] for one, place in every),
        tuple(one.near[place] for one, place in every),
        tuple(one.errors[place] for one, place in every),
    )


def _predict_group(
    group: Group, tensors: Sequence[DyadicArray | None], flags: Sequence[bool], formula: Formula
) -> Prediction:
    case, form = group.question, group.form
    counted = [tensor for tensor, flag in zip(tensors, flags, strict=True) if flag and tensor is not None]
    # For an invalid order or an invalid threshold, nothing is expected.
    defined = group.factor >= 0 and case.norm_type > 0
    if not all(tensor.is_finite for tensor in counted + group.weights) or not defined:
        return _predict_nothing(tensors, flags)
    threshold = _multiply_threshold(group)
    clipped = _clip_by_norm(tensors, flags, threshold, case.norm_type, formula, group.divisor)
    rate = Fraction(case.options.get("learning_rate", 1.0))
    gradients = tuple(None if expected is None else expected.multiply_by(rate) for expected in clipped.gradients)
    size = divide_to_float(clipped.norm.middle, Fraction(1))
    errors = group.bound_errors(count_terms(counted), size)
    shift, near = formula.compute_threshold_shift(), False
    if math.isfinite(threshold):
        near = _is_near(clipped.norm, Fraction(threshold) - shift, form, errors)
        # If the formula does not shift the norm, an exact norm is compared exactly.
        exact = _is_exact(clipped.norm, counted, case.norm_type, form, group.divisor) and (
            not group.has_multiple
            or (
                _is_exact(group.multiple, group.weights, 2.0, form, group.parts)
                and _is_number(Fraction(threshold), form)
            )
        )
        near = near and not (shift == 0 and exact and _have_exact_parts(group))
    count = len(tensors)
    return Prediction(gradients, (clipped.norm,) * max(count, 1), (near,) * count, (errors,) * count)


def _multiply_threshold(group: Group) -> float | Fraction:
    """Return the threshold times the group's own number, on which both oracles must agree.

    Raises
    ------
    OraclesDisagreeError
        If the two oracles contradict each other.
    """
    if not group.has_multiple:
        return group.factor
    multiple, least = group.multiple, Fraction(group.question.options.get("eps", 0.0))
    if SECOND is not None:
        other = SECOND.compute_norm(group.weights, divisor=group.parts)
        if multiple.upper < max(other.lower, least) or max(other.upper, least) < multiple.lower:
            msg = f"The two oracles disagree on the multiple of a threshold: {float(multiple.middle)!r}."
            raise OraclesDisagreeError(msg)
    return math.inf if group.factor == math.inf else Fraction(group.factor) * multiple.middle


def _is_near(norm: Enclosure, threshold: Fraction, form: Format, errors: ErrorBounds) -> bool:
    """Return whether the distance of the norm from the threshold is within the norm's error bound."""
    return divide_to_float(abs(norm.middle - threshold), ulp(threshold, form)) <= errors.norm_bound


def _is_exact(norm: Enclosure, tensors: Sequence[DyadicArray], p: float, form: Format, divisor: int = 1) -> bool:
    """Return whether arithmetic in the format gives the norm without any rounding, for any order of the sum."""
    # A division by a power of four, and by its root, rounds nothing.
    if divisor & (divisor - 1) or divisor.bit_length() % 2 == 0:
        return False
    if p == math.inf:
        return True
    if p not in (1.0, 2.0) or norm.lower != norm.upper or norm.power is None or not _is_number(norm.lower, form):
        return False
    # Every term is a multiple of this unit. If the total fits the format's digits, so does every partial sum.
    lowest = min((_find_unit_exponent(tensor) for tensor in tensors if count_terms([tensor])), default=0)
    if norm.power * divisor / compute_power_of_two(int(p) * lowest) > 2**form.precision:
        return False
    if p == 1.0 or len(tensors) == 1:
        return True
    alone = [integers.compute_norm([tensor]) for tensor in tensors]
    return all(one.lower == one.upper and _is_number(one.lower, form) for one in alone)


def _have_exact_parts(group: Group) -> bool:
    """Return whether every right way to the norm on a mesh is free of rounding.

    A rank may take the norm of what it has, and the ranks may join their norms in any order. What has copies is divided
    by their number, or by its root.
    """
    question = group.question
    if "mesh" not in question.options or question.norm_type not in (1.0, 2.0):
        return True
    mesh = Mesh(parse_mesh(question.options["mesh"]))
    gradients = [question.gradients[index] for index in group.members]
    if question.norm_type == 1:
        # A sum of magnitudes is divided by a power of two without rounding.
        counts = [
            math.prod(size for name, size in mesh.axes.items() if find_placement(one, name) == "replicated")
            for one in gradients
        ]
        return all(count & (count - 1) == 0 for count in counts)
    # The Euclidean norm of two equal copies is irrational, so copies are never exact.
    every = [
        [
            decode(part.data, part.dtype)
            for rank in range(mesh.size)
            if is_held(one, mesh.find_coordinates(rank))
            for part in [cut_array(one.array, one, mesh, rank)]
        ]
        for one in gradients
        if one.array is not None
    ]
    together = [part for parts in every for part in parts]
    return all(_are_exact_together(parts, group.form) for parts in (*every, together))


def _are_exact_together(parts: Sequence[DyadicArray], form: Format) -> bool:
    """Return whether the Euclidean norms of any of the parts together are numbers of the format."""
    some = [part for part in parts if any(part.integers)]
    norms = (integers.compute_norm(chosen) for count in range(len(some)) for chosen in combinations(some, count + 1))
    return all(norm.lower == norm.upper and _is_number(norm.lower, form) for norm in norms)


def _find_unit_exponent(tensor: DyadicArray) -> int:
    """Return the exponent of the greatest power of two that divides all elements. One of them is not zero."""
    if isinstance(tensor.integers, LongIntegers):
        return tensor.exponent + tensor.integers.count_common_zeros()
    bits = 0
    for integer in tensor.integers:
        bits |= abs(integer)
        if bits & 1:
            break
    return tensor.exponent + (bits & -bits).bit_length() - 1


def _is_number(value: Fraction, form: Format) -> bool:
    return value <= form.largest and decode_bits(round_to(value, form), form) == value


def _list_included(case: Question) -> list[bool]:
    chosen = set(case.included)
    return [i in chosen for i in range(len(case.gradients))]
