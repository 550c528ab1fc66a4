"""Expect the right elements: the formula's results, the elements that were passed, or a visible NaN."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from textwrap import indent
from typing import Any, ClassVar

import numpy as np

from gradclip_adapters.contract import Array, Reply
from gradclip_adapters.operations import OPERATIONS
from gradclip_reports.statuses import Status

from ...cases.model import Case, Expect
from ...cases.readable import SHOWN_ELEMENTS, show_array, show_gradients
from ...oracle.arrays import decode
from ...oracle.comparison import Comparison
from ...oracle.distances import measure
from ...oracle.formats import FORMATS, convert_to_dtype, read_float64_values, ulp
from ...oracle.formula import Formula, list_nonfinite_norms, predict_nonfinite, shows_nonfinite
from ...oracle.predict import predict
from ...oracle.question import get_bounds, list_norm_groups
from ..arrays import describe_first_difference, differs_in_subnormals_only, has_same_bits
from ..expectation import (
    Expectation,
    Part,
    accept_error_beyond_range,
    find_broken_form,
    find_first_changed,
    has_option_for_errors,
    may_raise,
    resolve,
)
from ..fingerprint import describe_results, describe_what_happened, show_answer, show_expected_arrays
from ..model import NOT_READ_BACK, Answer, Context, Raised, Replied, Script, Verdict, join_lines
from ..script_lines import (
    allow_flushing,
    assert_equal,
    assert_one_of,
    list_inputs,
    list_nonfinite_ways,
    list_out_of_range_ways,
    predict_values,
)

MAY_RAISE = """try:
{clip}
except Exception:
    raise SystemExit(0)  # an error is right, too"""


class _Elements(Expectation):
    """The elements that an oracle computes."""

    def select_explained_results(self, reply: Reply) -> Sequence[Array | None] | None:
        """Return the results."""
        return reply.gradients

    def describe(self, case: Case) -> Sequence[Part]:
        """Return the expected gradients, and the distance that results may have from them."""
        return describe_results(case, type(self).__name__)


@dataclass(frozen=True)
class Values(_Elements):
    """The elements equal the results of the formula within the error bound of the arithmetic.

    `may_refuse`: an error that leaves the gradients unchanged is right, too.
    `wide`: the bound does not grow with the number of elements, because the rule forbids sums whose error grows.
    `leaves_range`: a step of the formula is beyond the dtype's range. If that gives zeros, infinities or NaN
    everywhere, or a coefficient of few digits, as IEEE arithmetic does, the answer is of poor quality, but not a
    failure.
    """

    name: ClassVar[str] = "values"
    judges_elements: ClassVar[bool] = True
    wide: bool = False
    leaves_range: bool = False
    may_refuse: bool = False

    def judge_answers(self, context: Context, answers: Sequence[Answer]) -> Verdict | None:
        """Give an error the status `quality` if both a step and the norm leave the range."""
        (answer, *_) = answers
        if self.may_refuse and isinstance(answer, Raised) and find_first_changed(context.case, answer.inputs) is None:
            return Verdict(Status.PASS, observed=show_answer(answer))
        if not (self.leaves_range and isinstance(answer, Raised) and may_raise(context)):
            return None
        detail = f"The exact result exists, but the call {describe_what_happened(context.case, answer)}."
        return Verdict(Status.QUALITY, detail, observed=show_answer(answer))

    def judge_replies(self, context: Context, replies: Sequence[Reply]) -> Verdict:
        """Compare the included gradients with the formula's results."""
        case, results = context.case, replies[0].gradients
        found = measure(case, predict(case), results, case.included, context.flushes_subnormals)
        if found.grade != Status.PASS:
            excused = self.leaves_range and (_has_left_range(case, results) or _has_coarse_coefficient(case, results))
            status = Status.FAIL if self.wide else Status.QUALITY if excused else found.grade
            return _judge_elsewhere(case, results, status, found.write_sentence(case.operation), found.ulp)
        if not OPERATIONS[case.operation].is_by_norm and (flipped := _find_flipped_zero(context, results)) is not None:
            detail = f"Gradient {flipped}: a zero inside the range came back with the other sign."
            return _judge_elsewhere(case, results, Status.FAIL, detail, 0.0)
        return Verdict(Status.PASS, ulp=found.ulp)

    def write_script(self, script: Script) -> str:
        """Return lines that compare the results with the formula's."""
        case = script.case
        right = predict_values(case, script.entry_point, wide=self.wide)
        if self.leaves_range:
            return join_lines(script.clip_lines(), assert_one_of([right, *list_out_of_range_ways(case)]))
        return join_lines(script.clip_lines(), assert_equal(right))


def _judge_elsewhere(
    case: Case, results: Sequence[Array | None], status: Status, detail: str, distance: float
) -> Verdict:
    """Return a verdict on results that differ from the expected ones."""
    expected = {"gradients": show_expected_arrays(case)}
    return Verdict(status, detail, distance, expected, show_gradients(results[:SHOWN_ELEMENTS]))


@dataclass(frozen=True)
class Untouched(_Elements):
    """The gradients at these indices come back bit for bit."""

    name: ClassVar[str] = "untouched"
    judges_elements: ClassVar[bool] = True
    indices: tuple[int, ...]

    def judge_replies(self, context: Context, replies: Sequence[Reply]) -> Verdict:
        """Compare the bits of the gradients with those that were passed."""
        case, results = context.case, replies[0].gradients
        for i in self.indices:
            gradient, got = case.gradients[i], results[i]
            given = gradient.array
            if given is None or has_same_bits(given, got, context.through_optimizer):
                continue
            if context.flushes_subnormals and got is not None and differs_in_subnormals_only(given, got):
                continue
            why = "must not be changed by the clip" if gradient.need_clip else "is excluded"
            difference = describe_first_difference(given, got)
            detail = f"Gradient {i} ({given.dtype}) {why}, and did not come back bit for bit: {difference}."
            expected: Mapping[str, Any] = {"gradients": [show_array(given)]}
            distance = measure(case, predict(case), results, [i]).ulp if gradient.need_clip else None
            return Verdict(Status.FAIL, detail, distance, expected, show_gradients([got]))
        return Verdict(Status.PASS, ulp=0.0)

    def list_judged_gradients(self, case: Case) -> list[int]:
        """Return the indices of the gradients that are included."""
        return [i for i in self.indices if i in case.included]

    def write_script(self, script: Script) -> str:
        """Return lines that compare the gradients with those that were passed."""
        right = allow_flushing(list_inputs(script.case, self.indices), script.case, script.entry_point)
        return join_lines(script.clip_lines(), assert_equal(right))


@dataclass(frozen=True)
class NotSilent(Expectation):
    """A NaN or an infinity has a visible effect: the formula's result, NaN everywhere, or an error.

    If an entry point has an option that asks for an error, it must not raise an error without that option. `unchanged`:
    unchanged gradients are right, too, because no norm is above an infinite threshold. The element itself is still
    visible.
    """

    name: ClassVar[str] = "not-silent"
    says: ClassVar[str] = (
        "the formula's result, NaN everywhere, or an error (unless an option for errors exists and is not set); not "
        "the gradients as if nothing had happened"
    )
    judges_elements: ClassVar[bool] = True
    unchanged: bool = False

    def judge_answers(self, context: Context, answers: Sequence[Answer]) -> Verdict | None:
        """Accept an error if no option asks for it."""
        if not isinstance(answers[0], Raised) or has_option_for_errors(context):
            return None
        return Verdict(Status.PASS, observed=show_answer(answers[0]))

    def judge_replies(self, context: Context, replies: Sequence[Reply]) -> Verdict:
        """Check that each norm that is not finite has a visible consequence."""
        case, reply = context.case, replies[0]
        for group in list_norm_groups(case):
            if self.unchanged and all(_is_same(case, i, reply, context.through_optimizer) for i in group):
                continue
            totals = list_nonfinite_totals(case, group)
            if not totals:
                # In a clip by norm, a NaN in one gradient must not affect another gradient.
                found = measure(case, predict(case), reply.gradients, group, context.flushes_subnormals)
                if found.grade == Status.FAIL:
                    sentence = found.write_sentence(case.operation)
                    return _judge_elsewhere(case, reply.gradients, Status.FAIL, sentence, found.ulp)
            elif (formula := _list_expected_if_silent(case, group, totals, reply.gradients)) is not None:
                detail = (
                    f"The norm is {' or '.join(map(str, totals))}. The formula's result, NaN everywhere or an error "
                    f"must show it, but the call {describe_what_happened(case, Replied(reply))}."
                )
                expected = {"gradients": [list(map(str, one[:SHOWN_ELEMENTS])) for one in formula[:SHOWN_ELEMENTS]]}
                observed = show_gradients(reply.gradients[:SHOWN_ELEMENTS])
                return Verdict(Status.FAIL, detail, expected=expected, observed=observed)
        return Verdict(Status.PASS)

    def write_script(self, script: Script) -> str:
        """Return lines that accept each of the right answers."""
        right = list_nonfinite_ways(script.case)
        if self.unchanged:
            right.append(list_inputs(script.case, script.case.included))
        ways = assert_one_of(right)
        if "error_if_nonfinite" in script.entry_point.features:
            return join_lines(script.clip_lines(), ways)
        clip = MAY_RAISE.format(clip=indent(script.call.clip, "    "))
        return join_lines(script.call.write_lines(clip), ways)


def _is_same(case: Case, index: int, reply: Reply, through_optimizer: bool) -> bool:
    given = case.gradients[index].array
    return given is not None and has_same_bits(given, reply.gradients[index], through_optimizer)


@dataclass(frozen=True)
class InputsWritten(_Elements):
    """The gradients that were passed hold the results afterwards.

    `by`: the expectation that judges the elements. If there is none, the call decides.
    """

    name: ClassVar[str] = "inputs-written"
    rule: ClassVar[str] = "in-place-written"
    by: Expect | None = None

    def judge_answers(self, context: Context, answers: Sequence[Answer]) -> Verdict | None:
        """Accept an error if the dtype cannot hold the norm."""
        return accept_error_beyond_range(context, answers)

    def judge_replies(self, context: Context, replies: Sequence[Reply]) -> Verdict:
        """Judge the arrays that the passed gradients hold after the call, as if they had been returned."""
        case, reply = context.case, replies[0]
        if reply.inputs is None:
            return NOT_READ_BACK
        written = _take_written(reply)
        if (broken := find_broken_form(case, written)) is not None:
            return replace(broken, detail=f"In the gradients that were passed: {broken.detail}")
        found = Untouched(case.excluded).judge_replies(context, [written])
        return found if found.status != Status.PASS else self._choose(case).judge_replies(context, [written])

    def compare_formulas(self, context: Context, reply: Reply, formula: Formula) -> Comparison | None:
        """Compare the arrays that the passed gradients hold after the call with the results of two formulas."""
        expectation = _Elements() if self.by is None else resolve(self.by)
        return expectation.compare_formulas(context, _take_written(reply), formula)

    def _choose(self, case: Case) -> Expectation:
        """Return the expectation that judges the elements."""
        if self.by is not None:
            return resolve(self.by)
        is_finite = not OPERATIONS[case.operation].is_by_norm or None not in predict(case).norms
        return Values() if is_finite else NotSilent()

    def write_script(self, script: Script) -> str:
        """Return lines that compare the passed gradients after the call with the formula's results."""
        return join_lines(script.clip_lines(), assert_equal(predict_values(script.case, script.entry_point)))


def _take_written(reply: Reply) -> Reply:
    """Return the reply as if the arrays that the passed gradients hold after the call had been returned."""
    return replace(reply, gradients=tuple(reply.inputs or ()))


def _has_left_range(case: Case, results: Sequence[Array | None]) -> bool:
    """Return whether arithmetic with a step beyond the range explains every included element.

    A coefficient that underflows, or a norm that overflows, gives zeros. A product that overflows gives infinities with
    the elements' signs. One infinity divided by another gives NaN.
    """
    pairs = [(given, got) for i in case.included if (given := case.gradients[i].array) and (got := results[i])]
    before = np.concatenate([read_float64_values(given) for given, _ in pairs])
    after = np.concatenate([read_float64_values(got) for _, got in pairs])
    with np.errstate(invalid="ignore"):
        return any(np.array_equal(after, before * what, equal_nan=True) for what in (0.0, math.inf, math.nan))


def _has_coarse_coefficient(case: Case, results: Sequence[Array | None]) -> bool:
    """Return whether a coefficient that is rounded to the spacing of subnormal numbers explains every element.

    A subnormal coefficient has few digits, so it may be far from the exact one. The distance is at most one spacing:
    half for the rounding of the coefficient, and half for the error of the norm. The product with an element is rounded
    as usual.
    """
    return all(_is_coarse(case, i, results[i]) for i in case.included)


def _is_coarse(case: Case, index: int, got: Array | None) -> bool:
    given, expected = case.gradients[index].array, predict(case).gradients[index]
    if given is None or got is None or expected is None:
        return False
    form, exact = FORMATS[given.dtype], expected.factor
    after = decode(convert_to_dtype(got, given.dtype), given.dtype)
    if exact >= form.smallest_normal or not after.is_finite:
        return False
    least, most = exact - form.smallest_subnormal, exact + form.smallest_subnormal
    for x, y in zip(expected.values.list_fractions(), after.list_fractions(), strict=True):
        if not x:
            if y:
                return False
            continue
        slack = 2 * ulp(y, form) / abs(x)
        least, most = max(least, y / x - slack), min(most, y / x + slack)
    return least <= most


def _find_flipped_zero(context: Context, results: Sequence[Array | None]) -> int | None:
    """Return the first gradient in which a zero has changed its sign, if zero lies between the bounds."""
    case = context.case
    low, high = get_bounds(case)
    if context.through_optimizer or not low < 0 < high:
        return None
    for i in case.included:
        given, got = case.gradients[i].array, results[i]
        if given is None or got is None:
            continue
        before, after = read_float64_values(given), read_float64_values(got)
        if (np.signbit(before) != np.signbit(after))[before == 0].any():
            return i
    return None


def list_nonfinite_totals(case: Case, group: Sequence[int]) -> tuple[float, ...]:
    """Return the norms that a group of gradients may have if an element is not finite, or none if all are finite."""
    return list_nonfinite_norms(read_float64_values(array) for i in group if (array := case.gradients[i].array))


def _list_expected_if_silent(
    case: Case, group: Sequence[int], totals: Sequence[float], results: Sequence[Array | None]
) -> list[np.ndarray[Any, Any]] | None:
    """Return the formula's results if the given results hide that the norm, one of `totals`, is not finite, or None."""
    before = [read_float64_values(array) for i in group if (array := case.gradients[i].array)]
    after = [read_float64_values(array) for i in group if (array := results[i])]
    return None if shows_nonfinite(before, after, totals) else [predict_nonfinite(one, totals[0]) for one in before]
