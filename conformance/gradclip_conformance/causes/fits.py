"""Fit the number of a formula or of a law to several answers: an epsilon, a multiple, or the least norm."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from itertools import islice

from ..oracle.formula import PLAIN, Formula
from . import factors, norms
from .facts import AnsweredGroup, Seen, compute_plain_coefficient
from .laws import ABOVE, LAWS, Law
from .model import Explanation

#: The causes of the formulas with an epsilon, by the kind of formula.
FORMULA_CAUSES: Mapping[str, str] = {
    "coefficient": "eps-in-coefficient",
    "max-denominator": "eps-beside-maximum",
    "min-numerator": "eps-below-minimum",
}

#: Usual values of epsilon. Other values are fitted to the answers.
USUAL = tuple(10.0**-k for k in range(17)) + tuple(2.0**-k for k in (10, 23, 52))

#: At most this many estimates are tried, the most accurate ones. Two would do for a function in one dtype.
SHARPEST = 4  # measured: 2 and 8 name the same causes

#: A usual number is tried if the logarithm of an estimate is as near to its logarithm: within a factor of 1.6.
NEAR = 0.5  # measured: 0.25 and 1 name the same causes

#: A number is fitted to at most this many groups of gradients, which takes a tenth of a second.
MANY_GROUPS = 60  # measured: 30 and 120 name the same causes

#: A larger fitted number is cut to this one, because it may be too large for float64. Neither reproduces an answer.
LARGEST_FIT = Fraction(2**1000)


def _make_under_root(eps: float) -> Law:
    """Return the law that adds a number to the sum of powers before it takes the root."""
    return Law("eps-under-root", norm=partial(norms.add_below_root, eps=eps), parameters=(("eps", eps),))


def fit_formula(views: Iterable[Seen]) -> list[Formula]:
    """Return the formulas with an epsilon that reproduce enough answers with different norms or thresholds."""
    # Results that rounding explains are no evidence of an epsilon.
    groups = [group for seen in views for group in _select_ordinary(seen) if not group.follows(PLAIN)][:MANY_GROUPS]
    found = [best for kind in FORMULA_CAUSES if (best := _fit_kind(kind, groups)) is not None]
    # The formula that explains most comes first.
    return [formula for _, formula in sorted(found, key=lambda pair: -pair[0])]


def _select_ordinary(seen: Seen) -> list[AnsweredGroup]:
    """Return the groups from which an epsilon or a constant can be fitted."""
    return [
        group
        for group in seen.groups
        if group.total is None
        and not group.is_long
        and seen.rate == 1
        and 0 < group.threshold < math.inf
        and group.norm
        and (group.tensors[0].factor or 0) > 0
    ]


def _fit_kind(kind: str, groups: Sequence[AnsweredGroup]) -> tuple[int, Formula] | None:
    estimates = [found for group in groups if (found := _estimate(kind, group)) is not None]
    best: tuple[int, Formula] | None = None
    for eps in _list_candidates(estimates):
        formula = Formula(kind, eps)
        asked = {(group.norm, group.threshold) for group in groups if group.follows(formula)}
        # The first pair may give the number. Another one must confirm it.
        if len(asked) > 1 and (best is None or len(asked) > best[0]):
            best = len(asked), formula
    return best


def _list_candidates(estimates: Sequence[tuple[float, float]]) -> list[float]:
    """Return the numbers to try: the usual numbers near the most accurate estimates, and these estimates themselves."""
    sharpest = [eps for _, eps in sorted(estimates)[:SHARPEST] if 0 < eps < math.inf]
    usual = [min(USUAL, key=lambda one: abs(math.log(one / eps))) for eps in sharpest]
    near = [one for one, eps in zip(usual, sharpest, strict=True) if abs(math.log(one / eps)) < NEAR]
    return list(dict.fromkeys([*near, *(float(f"{eps:.3g}") for eps in sharpest)]))


def _estimate(kind: str, group: AnsweredGroup) -> tuple[float, float] | None:
    """Estimate epsilon from the first gradient. Return the estimate's relative rounding error, and the estimate."""
    factor = Fraction(group.tensors[0].factor or 0.0)
    norm, threshold = group.norm, Fraction(group.threshold)
    if kind == "coefficient":
        eps = threshold / factor - norm if factor < 1 else Fraction(0)
    elif kind == "max-denominator":
        eps = threshold / factor - max(norm, threshold)
    else:
        eps = min(norm, threshold) / factor - norm
    try:
        number, error = float(eps), float(max(norm, threshold)) * 2.0**-group.coarsest
    except OverflowError:
        return None
    return (error / number, number) if 0 < number < math.inf else None


def explain_by_formula(formula: Formula) -> Explanation:
    """Return the explanation by a formula with an epsilon."""
    return Explanation.predict(FORMULA_CAUSES[formula.kind], eps=formula.eps)


def _estimate_under_root(group: AnsweredGroup) -> list[float]:
    factor = Fraction(group.tensors[0].factor or 0.0)
    added = (Fraction(group.threshold) / factor) ** 2 - group.norm**2 if factor < 1 else Fraction(0)
    return _list_candidates([(0.0, float(added))]) if 0 < added < LARGEST_FIT else []


def _estimate_multiple(group: AnsweredGroup) -> list[float]:
    ratio = Fraction(group.tensors[0].factor or 0.0) * group.norm / Fraction(group.threshold)
    # Half precision shows two digits of a multiple.
    digits = range(2, 6) if group.coarsest >= 24 else [2]
    numbers = dict.fromkeys(float(f"{float(min(ratio, LARGEST_FIT)):.{count}g}") for count in digits)
    return [number for number in numbers if number != 1.0]


def _estimate_least_norm(group: AnsweredGroup) -> list[float]:
    least = Fraction(group.threshold) / Fraction(group.tensors[0].factor or 1.0)
    return _list_candidates([(0.0, float(least))]) if group.norm < least < LARGEST_FIT else []


def _make_multiple(number: float) -> Law:
    factor = factors.change_above(lambda right, _: right * Fraction(number))
    return Law("multiple", factor, parameters=(("number", number),), breaks=ABOVE)


def _make_least_norm(number: float, *, spares_others: bool) -> Law:
    factor = partial(factors.raise_norm, least=number, spares_others=spares_others)
    return Law("norm-replaced", factor, parameters=(("number", number),))


def _fit_floor(views: Iterable[Seen]) -> float | None:
    """Return the number that replaces smaller thresholds, or None if no number does.

    Every wrong group with a smaller threshold and a larger norm must then have this number as its norm.
    """
    asked = [
        group
        for seen in views
        for group in seen.groups
        if group.total is None and not group.is_long and seen.rate == 1 and 0 <= group.threshold < math.inf
    ][:MANY_GROUPS]
    norms = (max(Fraction(group.tensors[0].factor or 0.0), Fraction(0)) * group.norm for group in asked)
    for number in dict.fromkeys(float(f"{float(min(norm, LARGEST_FIT)):.2g}") for norm in norms):
        law = _make_floor(number)
        replaced = [group for group in asked if group.threshold < number < group.norm]
        different = {(group.norm, group.threshold) for group in replaced}
        # Many causes give calls with one threshold one norm. A threshold of zero gives them a norm of zero.
        is_shown = len({group.threshold for group in replaced}) > 1 or 0.0 in {group.threshold for group in replaced}
        # Two digits of one result in half precision may be a coincidence.
        is_precise = len(different) > 1 or any(group.coarsest >= 24 for group in replaced)
        if is_shown and is_precise and all(law.scales(group) for group in replaced):
            others = [group for group in replaced if group.threshold]
            if not others or not any(all(one.scales(group) for group in others) for one in LAWS):
                return number
    return None


def _make_floor(number: float) -> Law:
    def compute_factor(group: AnsweredGroup) -> Fraction | None:
        return compute_plain_coefficient(group.norm, max(group.threshold, number))

    return Law("threshold-replaced", compute_factor, parameters=(("number", number),))


@dataclass(frozen=True)
class Fit:
    """A kind of law with a number, which is fitted to several answers."""

    cause: str
    make: Callable[[float], Law]
    #: Return the number that several answers show, or None.
    find: Callable[[Sequence[Seen]], float | None]
    #: The parameter of the explanation that holds the number.
    parameter: str = "number"


def _make_fit(
    make: Callable[[float], Law],
    estimate: Callable[[AnsweredGroup], list[float]],
    speaks_of: Callable[[AnsweredGroup], bool] = lambda _: True,
    parameter: str = "number",
) -> Fit:
    """Return a kind of law whose number is that with which it reproduces most answers, but at least two.

    `estimate` returns the numbers that one answer may show. Another norm or another threshold must confirm it.
    """

    def find(views: Iterable[Seen]) -> float | None:
        groups = (group for seen in views for group in _select_ordinary(seen) if speaks_of(group))
        asked: dict[float, set[tuple[Fraction, float]]] = {}
        for group in islice(groups, MANY_GROUPS):
            for number in estimate(group):
                if make(number).reproduces(group.seen):
                    asked.setdefault(number, set()).add((group.norm, group.threshold))
        best = max(asked, key=lambda number: len(asked[number]), default=None)
        return best if best is not None and len(asked[best]) > 1 else None

    return Fit(make(1.0).cause, make, find, parameter)


FITS = (
    Fit("threshold-replaced", _make_floor, _fit_floor),
    _make_fit(_make_multiple, _estimate_multiple, lambda group: group.norm > Fraction(group.threshold)),
    _make_fit(_make_under_root, _estimate_under_root, lambda group: group.seen.order == 2, "eps"),
    # MindSpore's `ClipByNorm` limits the sum of squares to 1e-6, for gradients below the threshold, too.
    _make_fit(partial(_make_least_norm, spares_others=False), _estimate_least_norm),
    _make_fit(partial(_make_least_norm, spares_others=True), _estimate_least_norm),
)

_KINDS = (*LAWS, *(fit.make(1.0) for fit in FITS))

#: The rules that functions with a law break or keep, by the law's cause.
BREAKS: Mapping[str, str] = {law.cause: law.breaks for law in _KINDS if law.breaks}

KEEPS: Mapping[str, str] = {law.cause: law.keeps for law in _KINDS if law.keeps}
