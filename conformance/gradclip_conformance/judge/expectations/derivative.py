"""Expect the derivative through a clip: the vector-Jacobian product of the formula.

Let m elements x share the norm n, let v be the vector, and let u be the unit roundoff. If n is above the threshold c,
the derivative is `(c / n) (v - x (x . v) / n^2)`. The dot product has an error of at most `(m + 1) u` times the sum of
the magnitudes. The relative error of the norm is at most `(m / 2 + 1) u`. Each quotient, product and difference has a
relative error of at most `u`. Together, the first term has a relative error of at most `(m / 2 + 5) u`, and the second
term has a relative error of at most `(5 m / 2 + 9) u`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar

from gradclip_adapters.contract import Array, Reply
from gradclip_adapters.operations import OPERATIONS
from gradclip_reports.statuses import Status

from ...cases.model import Case
from ...cases.readable import show_gradients
from ...oracle.arrays import decode
from ...oracle.formats import FORMATS
from ...oracle.integers import compute_norm
from ...oracle.question import get_bounds, list_norm_groups
from ..expectation import Expectation, Part
from ..model import Context, Verdict

#: An exact derivative, and the largest error that an element may have.
Bounded = tuple[Fraction, Fraction]

#: At a kink there are two one-sided derivatives, and three answers are right: the first, the second, or their mean.
#: These are the weights of the first derivative in the three answers.
SHARES = (Fraction(0), Fraction(1, 2), Fraction(1))


def _decode(array: Array | None) -> list[Fraction]:
    return [] if array is None else list(decode(array.data, array.dtype).list_fractions())


@dataclass(frozen=True)
class Derivative(Expectation):
    """The reply holds vector-Jacobian products instead of results. The vectors are the cotangents of the call."""

    name: ClassVar[str] = "derivative"
    gives_gradients: ClassVar[bool] = False

    def judge_replies(self, context: Context, replies: Sequence[Reply]) -> Verdict:
        """Compare each element with the formula's derivative."""
        case, reply = context.case, replies[0]
        got = []
        for i, array in enumerate(reply.gradients):
            if array is not None and not decode(array.data, array.dtype).is_finite:
                detail = f"The derivative with respect to gradient {i} is not finite."
                return Verdict(Status.FAIL, detail, None, self._show(case), show_gradients(reply.gradients))
            got.append(_decode(array))
        for indices, allowed in _compute_derivatives(case):
            found = [value for i in indices for value in got[i]]
            if not any(_agree(found, one) for one in allowed):
                detail = f"The derivative with respect to {_name(indices)} differs from the formula's derivative."
                return Verdict(Status.FAIL, detail, None, self._show(case), show_gradients(reply.gradients))
        return Verdict(Status.PASS)

    def describe(self, case: Case) -> Sequence[Part]:
        """Return the derivatives. There are several at a kink."""
        return ("the derivatives of the results times the cotangents; for each group, one of:", self._show(case))

    def _show(self, case: Case) -> list[Any]:
        return [[[float(value) for value, _ in one] for one in allowed] for _, allowed in _compute_derivatives(case)]


def _name(indices: Sequence[int]) -> str:
    return "gradient " + ", ".join(map(str, indices)) if len(indices) == 1 else f"gradients {list(indices)}"


def _agree(found: Sequence[Fraction], expected: Sequence[Bounded]) -> bool:
    return all(abs(value - exact) <= bound for value, (exact, bound) in zip(found, expected, strict=True))


def _compute_derivatives(case: Case) -> Iterator[tuple[list[int], list[list[Bounded]]]]:
    """Yield, for each group of gradients, the derivatives that are right: one, or several at a kink."""
    unit = Fraction(1, 2 ** FORMATS[case.dtype].precision)
    for i, gradient in enumerate(case.gradients):
        if gradient.array is not None and not gradient.need_clip:
            yield [i], [[(value, Fraction(0)) for value in _decode(gradient.cotangent)]]
    if not OPERATIONS[case.operation].is_by_norm:
        low, high = map(Fraction, get_bounds(case))
        for i in case.included:
            values, vector = _decode(case.gradients[i].array), _decode(case.gradients[i].cotangent)
            pairs = list(zip(values, vector, strict=True))
            yield (
                [i],
                [[(_measure_share(x, low, high, share) * v, 4 * unit * abs(v)) for x, v in pairs] for share in SHARES],
            )
        return
    for group in list_norm_groups(case):
        values = [value for i in group for value in _decode(case.gradients[i].array)]
        vector = [value for i in group for value in _decode(case.gradients[i].cotangent)]
        arrays = [array for i in group if (array := case.gradients[i].array) is not None]
        size = compute_norm([decode(array.data, array.dtype) for array in arrays]).middle
        yield list(group), _derive_scaled(values, vector, size, Fraction(case.options["clip_norm"]), unit)


def _measure_share(value: Fraction, low: Fraction, high: Fraction, at_bound: Fraction) -> Fraction:
    """Return the share of a cotangent that passes through a clip by value."""
    if value in (low, high):
        return at_bound
    return Fraction(int(low < value < high))


def _derive_scaled(
    values: Sequence[Fraction], vector: Sequence[Fraction], size: Fraction, threshold: Fraction, unit: Fraction
) -> list[list[Bounded]]:
    """Return the derivatives of the gradients that share a norm."""
    count = Fraction(len(values))
    first, second = (count / 2 + 5) * unit, (5 * count / 2 + 9) * unit
    below = [(v, first * abs(v)) for v in vector]
    if size < threshold or not size:
        return [below]
    dot = sum((x * v for x, v in zip(values, vector, strict=True)), Fraction(0))
    magnitude = sum((abs(x * v) for x, v in zip(values, vector, strict=True)), Fraction(0))
    ratio = threshold / size
    above = [
        (
            ratio * (v - x * dot / size**2),
            ratio * (first * abs(v) + second * abs(x) * magnitude / size**2),
        )
        for x, v in zip(values, vector, strict=True)
    ]
    if size > threshold:
        return [above]
    return [
        [(share * y + (1 - share) * v, max(a, b)) for (v, a), (y, b) in zip(below, above, strict=True)]
        for share in SHARES
    ]
