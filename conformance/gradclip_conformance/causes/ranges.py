"""Predict results of arithmetic that leaves the range of the dtype, or has too few digits.

Each model first decides from exact numbers whether a step of the formula leaves the range, and then compares the whole
answer with the result of IEEE arithmetic.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import numpy.typing as npt

from ..oracle import integers
from ..oracle.bounds import compute_error_bounds
from ..oracle.formats import FORMATS, Format, compute_power_of_two, has_long_doubles, round_to_long_double
from ..oracle.formula import PLAIN, Formula
from .facts import (
    SCALING_ERROR,
    AnsweredGroup,
    Kind,
    Tensor,
    bound_norms_after_underflow,
    bound_power,
    compute_plain_coefficient,
    is_product_over_infinity,
    raise_to_power,
    round_doubles,
)
from .model import Explanation

Doubles = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Range:
    """A step of the formula that leaves the range of the dtype, with its cause in the catalogue."""

    cause: str
    #: Explain a group of finite gradients by the step. A function is meant to have one of the formulas.
    explain: Callable[[AnsweredGroup, Sequence[Formula]], Explanation | None]
    #: The rule, without its operation, that every function breaks whose arithmetic leaves the range in this step.
    breaks: str = ""
    #: Whether the norm becomes zero, infinite or inaccurate. A right norm in the same answer refutes the cause.
    loses_norm: bool = False


def list_ranges(
    group: AnsweredGroup, formulas: Sequence[Formula], barred: Collection[str] = frozenset()
) -> list[Explanation]:
    """Return each explanation of a group of finite gradients by a step that leaves the range. Skip barred causes."""
    if group.total is not None or not group.threshold >= 0:
        return []
    # In long groups with several kinds of results, only flushed numbers are recognised.
    steps = RANGES if not group.is_long or len(group.kinds) == 1 else (FLUSHED,)
    found = (step.explain(group, formulas) for step in steps if step.cause not in barred)
    return list(dict.fromkeys(one for one in found if one is not None))


def _explain_squares_overflow(group: AnsweredGroup, _: Sequence[Formula]) -> Explanation | None:
    """Explain results by squares or a sum of squares that become infinite, in the gradients or in a parameter."""
    if any(group.overflows(form) for form in group.forms) and (
        found := _explain_infinite_norm(group, "squares-overflow")
    ):
        return found
    parameter = group.asked.parameter
    if parameter is not None and _measure_parameter(group) ** 2 > FORMATS[parameter.dtype].largest:
        return _explain_infinite_limit(group, "squares-overflow")
    return None


def _explain_norm_out_of_range(group: AnsweredGroup, _: Sequence[Formula]) -> Explanation | None:
    """Explain results by a norm that the dtype cannot hold, although its squares may be."""
    parameter, narrowest = group.asked.parameter, min(form.largest for form in group.forms)
    if any(group.norm > form.largest for form in group.forms) and (
        found := _explain_infinite_norm(group, "norm-out-of-range")
    ):
        return found
    if parameter is not None and narrowest < _measure_parameter(group) <= FORMATS[parameter.dtype].largest:
        return _explain_infinite_limit(group, "norm-out-of-range")
    return _explain_conversion(group)


def _measure_parameter(group: AnsweredGroup) -> Fraction:
    return integers.compute_norm(group.asked.weights).middle


def _explain_infinite_limit(group: AnsweredGroup, cause: str) -> Explanation | None:
    """Explain results by a parameter whose norm, or whose squares, make the limit of a unit infinite."""
    return Explanation.predict(cause, "unclipped", effect="unchanged") if group.kinds <= {Kind.SAME} else None


def _explain_infinite_norm(group: AnsweredGroup, cause: str) -> Explanation | None:
    """Explain results by an infinite norm. A finite number divided by it is 0, and its product with 0 is NaN."""
    kinds = group.kinds
    if kinds <= {Kind.ZERO} or kinds <= {Kind.NAN}:
        return Explanation.predict(cause, "destroyed", effect="nan" if Kind.NAN in kinds else "zeros")
    if all(is_product_over_infinity(tensor, group.threshold) for tensor in group.distinct):
        return Explanation.predict(cause, "destroyed", effect="zeros and nan")
    return None


def _explain_conversion(group: AnsweredGroup) -> Explanation | None:
    """Explain results by a right norm that becomes infinite in the conversion to the dtype of a narrower gradient."""
    narrow = [tensor for tensor in group.distinct if group.norm > tensor.form.largest]
    wide = [tensor for tensor in group.distinct if group.norm <= tensor.form.largest]
    coefficient = compute_plain_coefficient(group.norm, group.threshold)
    if not narrow or not wide or coefficient is None or {tensor.kind for tensor in narrow} != {Kind.ZERO}:
        return None
    if not all(tensor.is_scaled_by(coefficient, SCALING_ERROR) for tensor in wide):
        return None
    return Explanation.predict("norm-out-of-range", "destroyed", effect="zeros in the narrower dtype")


def _explain_underflow(group: AnsweredGroup, formulas: Sequence[Formula]) -> Explanation | None:
    """Explain results by squares that underflow, in the gradients or in a parameter, so that its limit is zero."""
    for form in group.forms:
        if group.underflows(form) and (found := _explain_underflow_in(group, form, formulas)) is not None:
            return found
    parameter = group.asked.parameter
    if parameter is None or not group.kinds <= {Kind.ZERO}:
        return None
    is_lost = 0 < _measure_parameter(group) ** 2 < FORMATS[parameter.dtype].smallest_normal
    return Explanation.predict("squares-underflow", "destroyed", effect="zeros") if is_lost else None


def _explain_underflow_in(group: AnsweredGroup, form: Format, formulas: Sequence[Formula]) -> Explanation | None:
    low, high = bound_norms_after_underflow(group, form)
    order = group.seen.order
    if low == 0:
        if group.kinds <= {Kind.NAN}:
            return Explanation.predict("squares-underflow", "destroyed", effect="nan")
        if group.describe_effect(math.inf) == "infinite":
            return Explanation.predict("squares-underflow", "destroyed", effect="infinite")
        for formula in formulas:
            # The formula gives this coefficient for a norm of zero.
            if formula.kind == "coefficient":
                shrunk = min(Fraction(1), Fraction(group.threshold) / formula.small) if formula.eps else Fraction(1)
                if group.is_scaled_by(shrunk):
                    severity, effect = ("unclipped", "unchanged") if shrunk == 1 else ("wrong", "scaled")
                    return Explanation.predict("squares-underflow", severity, effect=effect)
        # The coefficient `c (1 / c)` may differ from 1 by its roundings.
        if all(tensor.is_scaled_by(Fraction(1), SCALING_ERROR) for tensor in group.distinct):
            return Explanation.predict("squares-underflow", "unclipped", effect="unchanged")
    slack = bound_power(form, order)
    if _is_multiplied_before(group, low, high, slack):
        return Explanation.predict("squares-underflow", effect="scaled")
    factor = _find_common_factor(group)
    if factor is None:
        return None
    for formula in formulas:
        # The common factor implies a norm. Powers that partly underflow must be able to give this norm.
        implied = Fraction(group.threshold) / factor - (formula.small if formula.kind == "coefficient" else 0)
        if implied > 0 and low / slack <= raise_to_power(implied, order) <= high * slack:
            return Explanation.predict("squares-underflow", effect="scaled")
    return None


def _is_multiplied_before(group: AnsweredGroup, low: Fraction, high: Fraction, slack: Fraction) -> bool:
    """Return whether results are `(x c) / max(n, c)`, with subnormal products and a norm of powers that underflow.

    `low` and `high` are the bounds of the sum of powers, which may differ by the factor `slack`.
    """
    threshold = Fraction(group.threshold) if math.isfinite(group.threshold) else Fraction(0)
    # Zeros are rather flushed subnormal numbers.
    if not threshold or Kind.ZERO in group.kinds:
        return False
    order = group.seen.order
    for norm in _list_implied_norms(group, threshold):
        if norm > threshold:
            is_possible = low / slack <= raise_to_power(norm, order) <= high * slack
        else:
            is_possible = group.norm > threshold and low <= raise_to_power(threshold, order)
        divisor = 1 / max(norm, threshold)
        if is_possible and all(
            _is_rounded_between(tensor, threshold, divisor, group.compute_bound(tensor)) for tensor in group.distinct
        ):
            return True
    return False


def _list_implied_norms(group: AnsweredGroup, threshold: Fraction) -> list[Fraction]:
    """Return the norms that divide the product of the largest element and the threshold, and the threshold itself."""
    found = [threshold]
    largest = max(group.distinct, key=lambda tensor: float(np.abs(tensor.before).max()))
    place = int(np.abs(largest.before).argmax())
    got, product = abs(float(largest.after[place])), abs(Fraction(float(largest.before[place]))) * threshold
    if got and math.isfinite(got) and product < largest.form.smallest_normal:
        steps = math.floor(product / largest.form.smallest_subnormal)
        found += [step * largest.form.smallest_subnormal / Fraction(got) for step in (steps, steps + 1)]
    return found


def _find_common_factor(group: AnsweredGroup) -> Fraction | None:
    """Return the factor that all elements share, within the error of one product, or None if they share none."""
    sized = [tensor for tensor in group.distinct if tensor.factor]
    if not sized:
        return None
    largest = max(sized, key=lambda tensor: float(np.abs(tensor.after).max()))
    factor = Fraction(largest.factor or 0.0)
    if factor <= 0 or not all(tensor.is_scaled_by(factor, SCALING_ERROR) for tensor in group.distinct):
        return None
    return factor


def _explain_coefficient(group: AnsweredGroup, formulas: Sequence[Formula]) -> Explanation | None:
    """Explain results by a coefficient that is rounded to a subnormal number, or to zero."""
    for formula in formulas:
        factor = group.compute_coefficient(formula)
        for form in group.forms:
            if factor is None or not 0 < factor < form.smallest_normal:
                continue
            if group.kinds <= {Kind.ZERO}:
                return Explanation.predict("coefficient-underflow", "destroyed", effect="zeros")
            steps = round(factor / form.smallest_subnormal)
            for step in (steps, steps - 1, steps + 1):
                rounded = step * form.smallest_subnormal
                if step > 0 and all(tensor.is_scaled_by(rounded, SCALING_ERROR) for tensor in group.distinct):
                    return Explanation.predict("coefficient-underflow", effect="scaled")
    return None


def _explain_reciprocal(group: AnsweredGroup, formulas: Sequence[Formula]) -> Explanation | None:
    """Explain results by a coefficient `c * (1 / (n + eps))` whose reciprocal overflows, with or without a limit of 1.

    The coefficient `c * min(1 / n, 1 / c)` has the same effect if both reciprocals overflow.
    """
    for form, formula in ((form, formula) for form in group.forms for formula in formulas):
        divisor = group.norm + formula.small
        if divisor <= 0 or 1 / divisor <= form.largest:
            continue
        effect = group.describe_effect(math.inf)
        # The threshold is multiplied by infinity. The product of zero and infinity is NaN.
        # Without an epsilon, an underflow of the norm would also leave the gradients unchanged.
        expected = ("nan",) if group.threshold == 0 else ("unchanged", "infinite") if formula.eps else ("infinite",)
        if effect in expected and not (effect == "unchanged" and group.norm <= Fraction(group.threshold)):
            severity = "unclipped" if effect == "unchanged" else "destroyed"
            return Explanation.predict("reciprocal-out-of-range", severity, effect=effect)
    return None


def _explain_products(group: AnsweredGroup, _: Sequence[Formula]) -> Explanation | None:
    """Explain results by `(x c) / n` or `(x / n) c`, if the first product or quotient leaves the range."""
    factor = compute_plain_coefficient(group.norm, group.threshold)
    if factor is None or not math.isfinite(group.threshold) or not group.norm:
        return None
    threshold = Fraction(group.threshold)
    divisor = max(group.norm, threshold)
    orders = ((threshold, 1 / divisor), (1 / divisor, threshold)) if divisor and threshold else ()
    for first, second in orders:
        if all(_is_rounded_between(tensor, first, second, group.compute_bound(tensor)) for tensor in group.distinct):
            destroyed = group.kinds <= {Kind.ZERO, Kind.NAN, Kind.PARTLY}
            return Explanation.predict("product-out-of-range", "destroyed" if destroyed else "")
    return None


def _explain_threshold(group: AnsweredGroup, _: Sequence[Formula]) -> Explanation | None:
    """Explain results by `c / sqrt(max(n ** 2, c ** 2))`, if only the square of the threshold leaves the range.

    An infinite square makes zeros. A subnormal square has few digits, so gradients below the threshold change. If the
    threshold is a NumPy scalar whose square is infinite, no square of a norm is above it.
    """
    cause = "threshold-square-out-of-range"
    if not 0 < group.threshold < math.inf:
        return None
    square, scalar = Fraction(group.threshold) ** 2, group.seen.case.options.get("threshold_as", "")
    own = FORMATS.get(scalar.removeprefix("numpy-"))
    if own is not None and square > own.largest and group.kinds <= {Kind.SAME}:
        return Explanation.predict(cause, "unclipped", effect="unchanged")
    for form in group.forms:
        if square > form.largest and not group.overflows(form) and group.kinds <= {Kind.ZERO}:
            return Explanation.predict(cause, "destroyed", effect="zeros")
        if square >= form.smallest_normal or group.norm > Fraction(group.threshold):
            continue
        steps = math.floor(square / form.smallest_subnormal)
        for rounded in (step * form.smallest_subnormal for step in (steps, steps + 1) if step):
            factor = Fraction(math.sqrt(square / rounded))
            # A coefficient that is almost 1 would also explain other roundings.
            is_clear = abs(factor - 1) * 2**group.coarsest > SCALING_ERROR
            if is_clear and all(tensor.is_scaled_by(factor, SCALING_ERROR) for tensor in group.distinct):
                return Explanation.predict(cause, effect="scaled")
    return None


def _leaves_range(tensor: Tensor, factor: Fraction) -> bool:
    """Return whether the product of an element and the factor overflows or underflows."""
    sizes = np.abs(tensor.before[tensor.before != 0])
    if not len(sizes):
        return False
    smallest, largest = (Fraction(float(size)) * factor for size in (sizes.min(), sizes.max()))
    return largest > tensor.form.largest or smallest < tensor.form.smallest_normal


def _is_rounded_between(tensor: Tensor, first: Fraction, second: Fraction, bound: float) -> bool:
    """Return whether each element is `(x first) second`, and a first product overflows or underflows."""
    form = tensor.form
    if not _leaves_range(tensor, first):
        return False
    # A long array may hold few numbers, and exact arithmetic is slow. Pairs of 16 bytes are hashed in little time.
    different = {*np.column_stack((tensor.before, tensor.after)).view("V16").ravel().tolist()}
    pairs = np.frombuffer(b"".join(different), np.float64).reshape(-1, 2)
    error = Fraction(bound + 2) * compute_power_of_two(1 - form.precision)
    largest, normal, subnormal = form.largest, form.smallest_normal, form.smallest_subnormal
    for given, got in pairs[~_are_clearly_rounded_between(form, pairs, first, second, error)].tolist():
        exact = Fraction(given)
        between = abs(exact) * first
        if between > largest:
            if math.isfinite(got):
                return False
            continue
        if not math.isfinite(got):
            return False
        if 0 < between < normal:
            # The first product is rounded to a subnormal number, or flushed to zero.
            steps = math.floor(between / subnormal)
            products = [step * subnormal for step in (0, steps, steps + 1)]
        else:
            products = [between]
        sign = 1 if exact >= 0 else -1
        if all(
            abs(sign * Fraction(got) - product * second) > product * second * error + subnormal for product in products
        ):
            return False
    return True


def _are_clearly_rounded_between(
    form: Format, pairs: Doubles, first: Fraction, second: Fraction, error: Fraction
) -> npt.NDArray[np.bool_]:
    """Return for which pairs `(x, y)` y is `(x first) second`, whatever the errors of this test. The others may be too.

    This test uses the widest floats of the machine; its few roundings have a relative error of at most `margin`. If
    these floats are doubles, it decides nothing for gradients in float64.
    """
    is_wide = has_long_doubles()
    limit = compute_power_of_two(1000 if is_wide else 300)
    if not all(1 / limit < factor < limit for factor in (first, second)) or (form.precision == 53 and not is_wide):
        return np.zeros(len(pairs), bool)
    x, y = pairs.T.astype(np.longdouble)
    margin = 8 * np.finfo(np.longdouble).eps
    largest, normal, subnormal = (float(one) for one in (form.largest, form.smallest_normal, form.smallest_subnormal))
    with np.errstate(all="ignore"):
        product = np.abs(x) * round_to_long_double(first)
        overflows_clearly = product > largest * (1 + margin)
        underflows_clearly = product < normal * (1 - margin)
        stays_clearly = (product > normal * (1 + margin)) & (product < largest * (1 - margin))
        # The nearest number is one of the two around the exact product, whatever the error.
        product = np.where(underflows_clearly, np.rint(product / subnormal) * subnormal, product)
        result = product * round_to_long_double(second)
        allowed = result * round_to_long_double(error) + subnormal
        is_near = np.abs(np.where(x < 0, -y, y) - result) + margin * (result + subnormal) <= allowed
    is_flushed = np.abs(y) <= subnormal
    fits_inside = (stays_clearly & is_near) | (underflows_clearly & (is_near | is_flushed))
    decided: npt.NDArray[np.bool_] = fits_inside | (overflows_clearly & ~np.isfinite(y))
    return decided


def _explain_flush(group: AnsweredGroup, formulas: Sequence[Formula]) -> Explanation | None:
    """Explain results by subnormal numbers that become zero, in the gradients or in the results."""
    for formula in formulas:
        factor = group.compute_coefficient(formula)
        if factor is None:
            continue
        counts = [_count_flushed(tensor, factor, group.compute_bound(tensor)) for tensor in group.distinct]
        if None not in counts and any(counts):
            return Explanation.predict("subnormals-flushed")
    every_is_subnormal = all(
        (np.abs(tensor.before) < float(tensor.form.smallest_normal)).all() for tensor in group.distinct
    )
    if every_is_subnormal and group.kinds <= {Kind.SAME} and group.norm > Fraction(group.threshold):
        return Explanation.predict("subnormals-flushed", "unclipped", effect="unchanged")
    return None


def _count_flushed(tensor: Tensor, factor: Fraction, bound: float) -> int | None:
    """Return how many zeros replace subnormal numbers, or None if another result is wrong."""
    form, smallest = tensor.form, float(tensor.form.smallest_normal)
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        right = tensor.before * float(factor)
        # The product in float64 is itself rounded.
        allowed = np.abs(right) * (bound + 1) * 2.0 ** (1 - form.precision) + 2 * float(form.smallest_subnormal)
        wrong = ~(np.abs(tensor.after - right) <= allowed)
        is_small = (np.minimum(np.abs(tensor.before), np.abs(right)) < smallest) & (tensor.after == 0)
    return None if (wrong & ~is_small).any() else int(wrong.sum())


FLUSHED = Range("subnormals-flushed", _explain_flush)

#: The steps in the order of the formula.
RANGES = (
    Range("squares-overflow", _explain_squares_overflow, breaks="overflow-of-squares", loses_norm=True),
    Range("norm-out-of-range", _explain_norm_out_of_range, loses_norm=True),
    Range("squares-underflow", _explain_underflow, breaks="underflow-of-squares", loses_norm=True),
    Range("reciprocal-out-of-range", _explain_reciprocal),
    Range("coefficient-underflow", _explain_coefficient, breaks="coefficient-underflow"),
    Range("product-out-of-range", _explain_products, breaks="intermediate-range"),
    FLUSHED,
    Range("threshold-square-out-of-range", _explain_threshold),
)

#: The rules that functions break whose arithmetic leaves the range in a step, by the step's cause.
BREAKS: Mapping[str, str] = {step.cause: step.breaks for step in RANGES if step.breaks}

#: The rules about calls in which the arithmetic may leave the range, or meets subnormal numbers. They refute no law.
LIMITS = frozenset({*BREAKS.values(), "subnormal"})

#: The causes of steps that lose the norm.
LOST_NORMS = frozenset(step.cause for step in RANGES if step.loses_norm)


#: For each format, the narrower formats, widest first.
NARROWER = {"float64": ("float32", "bfloat16", "float16"), "float32": ("float16", "bfloat16")}

#: A relative error bound below this one shows that a narrower dtype was used.
CLEAR = 0.125  # measured: 0.0625 and 0.25 name the same causes


def list_roundings(group: AnsweredGroup, formulas: Sequence[Formula], *, is_narrow: bool) -> Iterator[Explanation]:
    """Yield the explanations of results by the errors of a long sum, or of a narrower dtype.

    A careful computation of another formula needs no long sum. `is_narrow` says that the arithmetic is known to be
    narrower. Then it also explains a lost norm.
    """
    for formula in formulas:
        factor = group.compute_coefficient(formula)
        if factor is None:
            return
        factor *= group.seen.rate
        if group.kinds <= {Kind.FINITE, Kind.SAME} and group.is_scaled_by(factor):
            if factor == group.seen.rate:
                yield Explanation.predict("not-exact-below")
            elif formula == PLAIN or not group.follows(formula, careful=True):
                yield Explanation.predict("long-sum")
        widest = max(group.tensors, key=lambda tensor: tensor.form.precision).given.dtype
        for narrow in NARROWER.get(widest, ()):
            if (
                _is_computed_in(group, factor, narrow)
                or _has_rounded_numbers(group, formula, narrow)
                or (is_narrow and _is_lost_in(group, narrow))
            ):
                yield Explanation.predict("narrower-arithmetic", dtype=narrow)


def _is_lost_in(group: AnsweredGroup, narrow: str) -> bool:
    """Return whether results are zeros or unchanged, because the norm or the threshold leaves the range of a dtype."""
    form = FORMATS[narrow]
    if not 0 < group.threshold < math.inf:
        return False
    if group.kinds == {Kind.ZERO}:
        return group.overflows(form) or round_doubles(np.array([group.threshold]), narrow)[0] == 0
    if group.kinds != {Kind.SAME} or group.seen.order == math.inf:
        return False
    largest = max(float(np.abs(tensor.before).max()) for tensor in group.distinct)
    return raise_to_power(Fraction(largest), group.seen.order) <= form.smallest_subnormal / 2


def _has_rounded_numbers(group: AnsweredGroup, formula: Formula, narrow: str) -> bool:
    """Return whether results are right for a threshold and an epsilon that were rounded to a narrower dtype.

    MLX 0.29 does so with all numbers of Python, although it computes in the dtype of the gradients.
    """
    if not 0 < group.threshold < math.inf or not group.kinds <= {Kind.FINITE, Kind.SAME}:
        return False
    threshold, eps = round_doubles(np.array([group.threshold, formula.eps]), narrow).tolist()
    # A formula that was fitted to an answer may have an epsilon beyond the narrower range.
    if not 0 < threshold < math.inf or eps == math.inf or (threshold, eps) == (group.threshold, formula.eps):
        return False
    if formula == PLAIN:
        factor = compute_plain_coefficient(group.norm, threshold)
    elif (known := group.seen.prediction.norms[group.tensors[0].index]) is not None:
        factor = integers.compute_coefficient(known, threshold, Formula(formula.kind, eps))
    else:
        return False
    return factor is not None and group.is_scaled_by(factor * group.seen.rate)


def _is_computed_in(group: AnsweredGroup, factor: Fraction, narrow: str) -> bool:
    """Return whether results are right within the error bound of a narrower dtype, and show that it was used.

    They show it if all results are numbers of the narrower dtype, or if the coefficient or the norm is such a number.
    Without this condition, this model would also explain a wrong norm that is almost right.
    """
    form = FORMATS[narrow]
    if group.kinds <= {Kind.SAME} or group.kinds <= {Kind.ZERO}:
        return False
    size, is_average = float(min(group.norm, Fraction(2) ** 1000)), group.seen.operation.is_average
    bounds = compute_error_bounds(form, group.seen.order, group.count, size, is_average=is_average)
    slack = (bounds.clip_bound + 2) * 2.0 ** (1 - form.precision)
    if slack < CLEAR and all(_is_rounded_to(tensor, factor, narrow, slack) for tensor in group.distinct):
        return True
    common = _find_common_factor(group) if slack < CLEAR and group.kinds <= {Kind.FINITE, Kind.SAME} else None
    if common is None or abs(common - factor) > factor * Fraction(slack):
        return False
    # An ulp is at most twice the unit.
    error = 2 * SCALING_ERROR * 2.0**-group.coarsest
    numbers = [float(common)]
    if 0 < group.threshold < math.inf:
        # The threshold may be rounded to the narrower dtype, too.
        rounded = float(round_doubles(np.array([group.threshold]), narrow)[0])
        numbers += [one / float(common) for one in (group.threshold, rounded)]
        # The reciprocal of the norm, too, may be such a number.
        numbers.append(float(common) / group.threshold)
        # Only the threshold that multiplies may be such a number. Keras 3.6 on torch: (x * float32(c)) / max(n, c).
        if rounded != group.threshold:
            numbers.append(float(common) * max(size, group.threshold))
    return any(abs(round_doubles(np.array([one]), narrow)[0] - one) <= one * error for one in numbers)


def _is_rounded_to(tensor: Tensor, factor: Fraction, narrow: str, slack: float) -> bool:
    """Return whether results are products that were rounded to a narrower dtype, with its overflow and underflow."""
    form = FORMATS[narrow]
    with np.errstate(over="ignore", invalid="ignore"):
        right = tensor.before * float(factor)
        far = np.abs(right) > float(form.largest) * (1 - slack)
        near = np.abs(tensor.after - right) <= np.abs(right) * slack + float(form.smallest_subnormal)
    held = round_doubles(tensor.after, narrow) == tensor.after
    return bool((held & (near | (far & np.isinf(tensor.after)))).all())
