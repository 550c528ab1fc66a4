"""Prove an answer wrong by exact arithmetic, which shares nothing with the suite's oracles.

The sum of powers is an exact fraction, and this sum decides whether the norm is above the threshold. The norm itself is
its root to `BITS` digits, so its error is far below every tolerance. An answer is *proven wrong* only if no
ordinary arithmetic explains it: its error exceeds the error of a simple running sum over the nonzero elements.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from .facts import Array, Work

#: The binary digits of a computed root.
BITS = 160


@dataclass
class Answer:
    """A function's answer and the inputs after the call. The answer is the results and the norm, or an error."""

    results: Any
    norm: float | None
    error: str | None
    inputs: Sequence[Any]


@dataclass
class Norm:
    """A norm `n` with `n ** power == total`, exactly."""

    total: Fraction
    power: int
    terms: int

    @property
    def value(self) -> Fraction:
        """The norm, rounded down at a digit far beyond those that matter."""
        return take_root(self.total, self.power)

    def compare(self, threshold: Fraction) -> int:
        """Return -1, 0 or 1: below, at or above the threshold."""
        other = threshold**self.power
        return (self.total > other) - (self.total < other)


class NotExactError(Exception):
    """A number has no exact root."""


def take_exact_root(value: Fraction) -> Fraction:
    """Return the square root of a number that is a square."""
    root = Fraction(math.isqrt(value.numerator), math.isqrt(value.denominator))
    if root * root != value:
        message = f"{value} is not a square"
        raise NotExactError(message)
    return root


def take_root(value: Fraction, power: int) -> Fraction:
    """Return the root, rounded down to `BITS` digits."""
    if not value or power == 1:
        return value
    lead = value.numerator.bit_length() - value.denominator.bit_length()
    shift = BITS * power - lead
    shift += -shift % power
    scaled = (
        (value.numerator << shift) // value.denominator
        if shift >= 0
        else value.numerator // (value.denominator << -shift)
    )
    low, high = 0, 1 << (scaled.bit_length() // power + 1)
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if middle**power <= scaled else (low, middle - 1)
    return Fraction(low) * Fraction(2) ** (-shift // power)


def count_values(array: Array) -> list[tuple[Fraction, int]]:
    """Return the different magnitudes, exactly, and how often each occurs."""
    values, counts = np.unique(np.abs(array.reshape(-1)), return_counts=True)
    return [
        (Fraction(value), int(count)) for value, count in zip(values.tolist(), counts.tolist(), strict=True) if value
    ]


def compute_norm(arrays: Sequence[Array], p: float) -> Norm:
    """Return the exact norm. `p` is infinity, a positive integer or half of one.

    Raises
    ------
    NotExactError
        If `p` is half an odd number, and an element is not a square, so that its power is irrational.
    """
    pairs = [pair for array in arrays for pair in count_values(array)]
    if p == math.inf:
        return Norm(max((value for value, _ in pairs), default=Fraction(0)), 1, 1)
    if p != int(p):
        # |x|^p is sqrt(|x|)^(2p). The sum of these is n^p, and its square is n^(2p).
        power = int(2 * p)
        roots = sum((count * take_exact_root(value) ** power for value, count in pairs), Fraction(0))
        return Norm(roots**2, power, sum(count for _, count in pairs))
    power = int(p)
    total = sum((count * value**power for value, count in pairs), Fraction(0))
    return Norm(total, power, sum(count for _, count in pairs))


def find_wrong(work: Work, answer: Answer) -> str | None:
    """Describe a proven error in an answer to a call with finite or nonfinite elements; None if there is none."""
    nonfinite = not all(np.isfinite(work.grads[i]).all() for i in work.present if work.flags[i])
    if answer.error is not None:
        # A function may refuse a norm that is not finite.
        return None if nonfinite and work.about.is_by_norm else f"raised {answer.error}"
    if nonfinite and work.error_flag:
        return "raised no error, although one was requested"
    if (found := _find_wrong_form(work, answer)) is not None:
        return found
    included = [i for i in work.present if work.flags[i]]
    for i in work.excluded:
        if not _has_same_bits(answer.results[i], work.grads[i]):
            return f"gradient {i} is excluded and changed"
    if not work.about.is_by_norm:
        return _find_wrong_values(work, included, answer)
    groups = [included] if work.about.is_global else [[i] for i in included]
    for group in groups:
        found = _find_wrong_nonfinite(work, group, answer) if nonfinite else _find_wrong_scale(work, group, answer)
        if found is not None:
            return found
    return None


def _find_wrong_form(work: Work, answer: Answer) -> str | None:
    if not isinstance(answer.results, list) or len(answer.results) != len(work.grads):
        return "the number of results differs"
    for i, (grad, result, left) in enumerate(zip(work.grads, answer.results, answer.inputs, strict=True)):
        if (grad is None) != (result is None):
            return f"gradient {i} is None in the results or in the input, but not in both"
        if grad is None:
            continue
        if not isinstance(result, np.ndarray) or result.dtype != grad.dtype or result.shape != grad.shape:
            return f"gradient {i} has another dtype or shape"
        if not _has_same_bits(left, result if work.in_place else grad):
            return f"gradient {i} is not written" if work.in_place else f"the input {i} is changed"
    return None


def _has_same_bits(one: Array, other: Array) -> bool:
    return one.tobytes() == other.tobytes()


def _find_wrong_values(work: Work, included: Sequence[int], answer: Answer) -> str | None:
    """Compare a clip by value, in which nothing is rounded."""
    high = work.threshold
    low = -high if work.low is None else work.low
    for i in included:
        given, got = work.grads[i].reshape(-1), answer.results[i].reshape(-1)
        for x, y in _list_pairs(given, got):
            # Nothing is rounded here: comparisons are exact, and the bounds have at most ten binary digits.
            wanted = low if x < low else high if x > high else x
            if not (y == wanted or (math.isnan(y) and math.isnan(wanted))):
                return f"an element {x!r} of gradient {i} became {y!r}"
        wide = given.astype(np.float64)
        inside = (wide >= low) & (wide <= high)
        if not _has_same_bits(given[inside], got[inside]):
            return f"an element of gradient {i} lost the sign of its zero"
    return None


def _list_pairs(given: Array, got: Array) -> Iterator[tuple[float, float]]:
    """Yield the different pairs of element and result."""
    pairs = np.stack([given.astype(np.float64), got.astype(np.float64)], axis=1)
    # Compare bytes, so that NaN equals NaN.
    yield from np.unique(pairs.view("V16")).view(np.float64).reshape(-1, 2).tolist()


def _find_wrong_scale(work: Work, group: Sequence[int], answer: Answer) -> str | None:
    """Compare the results that share a norm, and the norm."""
    norm = compute_norm([work.grads[i] for i in group], work.norm_type)
    units = [find_unit(work.grads[i].dtype) for i in group]
    tolerance = _tolerate_norm(norm, work.norm_type, max(units, default=Fraction(0)))
    value = norm.value
    if work.about.is_global and answer.norm is not None:
        told = float(answer.norm)
        if not math.isfinite(told) or abs(Fraction(told) - value) > tolerance * value:
            return f"the norm is {told!r} instead of {float(value)!r}"
    if work.threshold == math.inf:
        return _find_changed(work, group, answer, "below the infinite threshold")
    threshold = Fraction(work.threshold)
    relation = norm.compare(threshold)
    near = abs(value - threshold) <= tolerance * value
    # Few terms with an exact norm, such as 3 and 4, have that norm in every arithmetic.
    if (relation < 0 and not near) or (relation == 0 and norm.terms <= 4):
        return _find_changed(work, group, answer, "not above the threshold")
    factor = threshold / value if value and (relation > 0) else Fraction(1)
    for i, unit in zip(group, units, strict=True):
        info = np.finfo(work.grads[i].dtype)
        floor = 2 * Fraction(float(info.smallest_subnormal))
        slack = tolerance + 6 * unit
        for x, y in _list_pairs(work.grads[i].reshape(-1), answer.results[i].reshape(-1)):
            wanted = Fraction(x) * factor
            if not math.isfinite(y) or abs(Fraction(y) - wanted) > slack * abs(wanted) + (floor if wanted else 0):
                return f"an element {x!r} of gradient {i} became {y!r} instead of {float(wanted)!r}"
    return None


def _find_changed(work: Work, group: Sequence[int], answer: Answer, why: str) -> str | None:
    for i in group:
        if not _has_same_bits(answer.results[i], work.grads[i]):
            return f"gradient {i} is changed, {why}"
    return None


def find_unit(dtype: Any) -> Fraction:
    return Fraction(float(np.finfo(dtype).eps)) / 2


def _tolerate_norm(norm: Norm, p: float, unit: Fraction) -> Fraction:
    """Return the largest relative error that ordinary arithmetic explains.

    Let u be the unit roundoff of the dtype, v that of the sums, and n the number of terms. The powers of the elements,
    the norm of each tensor, the powers of these norms and the common norm may be rounded to the dtype. The sums are
    taken in the dtype, or in float32 for half precision, where the rules forbid a sum in the dtype. If a power has the
    error s u and a root the error r v, the sum under the last root has the error 2 s u + (n + 1 + 2 p r) v, and the two
    rounded norms add 2 u (Higham, Accuracy and Stability of Numerical Algorithms, lemma 3.1).
    """
    u, v = float(unit), float(min(unit, find_unit(np.float32)))
    if p == math.inf or not norm.total:
        return 2 * unit
    # A square and a square root are rounded correctly. Other powers are within two units of roundoff, and the rounded
    # exponent of a root adds the logarithm of the norm.
    s, r = {1.0: (0.0, 0.0), 2.0: (1.0, 1.0)}.get(p) or (2.0, 2.0 + abs(math.log(norm.value)))
    of_sum = 2 * s * u + (norm.terms + 1 + 2 * p * r) * v
    return Fraction(math.expm1(-math.log1p(-of_sum) / p)) + 2 * unit


def _find_wrong_nonfinite(work: Work, group: Sequence[int], answer: Answer) -> str | None:
    """Find elements that came back as if the norm were finite."""
    everything = np.concatenate([np.zeros(0), *(work.grads[i].reshape(-1).astype(np.float64) for i in group)])
    if np.isfinite(everything).all():
        return _find_wrong_scale(work, group, answer)
    has_nan = bool(np.isnan(everything).any())
    told = answer.norm
    if work.about.is_global and told is not None and math.isfinite(float(told)):
        return "the norm is finite although an element is not"
    if work.threshold == math.inf:
        return None
    for i in group:
        given, got = work.grads[i].reshape(-1), answer.results[i].reshape(-1)
        finite = np.isfinite(given)
        if np.isfinite(got[~finite]).any():
            return f"an element of gradient {i} that was not finite is finite"
        if not has_nan and (np.isfinite(got[finite]) & (got[finite] != 0)).any():
            return f"an element of gradient {i} is neither zero nor NaN although the norm is infinite"
        both = has_nan and bool(np.isinf(everything).any())
        if has_nan and not both and np.isfinite(got[finite]).any():
            return f"an element of gradient {i} is finite although the norm is NaN"
    return None
