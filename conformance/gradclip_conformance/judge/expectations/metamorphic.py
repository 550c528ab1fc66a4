"""Expect a relation between the results of one call, or of two. A relation needs no oracle."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, ClassVar

from gradclip_adapters.contract import Array, Reply
from gradclip_reports.records import Cell
from gradclip_reports.statuses import Status

from ...cases.literals import NoScript
from ...cases.model import Case, expect
from ...cases.patterns import suggest_known
from ...cases.readable import read_shown_arrays, show_gradients, show_input
from ...oracle.arrays import decode
from ...oracle.distances import measure, measure_largest_distance
from ...oracle.formats import convert_to_dtype
from ...oracle.model import ExpectedArray
from ...oracle.predict import predict
from ..expectation import Expectation, Part, find_broken_form
from ..fingerprint import describe_distance_between_calls
from ..model import Answer, Context, Replied, Verdict
from ..relations import OF_ONE, RELATIONS, check_one


@dataclass(frozen=True)
class Metamorphic(Expectation):
    """The results of one call, or of two, are related. See the module `relations`.

    `exponent`: the power of two for scaling.
    """

    name: ClassVar[str] = "metamorphic"
    relates: ClassVar[bool] = True
    relation: str
    exponent: int = 0

    def __post_init__(self) -> None:
        """Refuse a relation that does not exist."""
        if self.relation not in RELATIONS and self.relation not in OF_ONE:
            msg = f"There is no relation {self.relation!r}.{suggest_known(self.relation, [*RELATIONS, *OF_ONE])}"
            raise ValueError(msg)

    def follow_up(self, case: Case, first: Answer | None) -> Case | None:
        """Return the second call, if the relation needs one and the first call has results."""
        if self.relation not in RELATIONS or not isinstance(first, Replied):
            return None
        if find_broken_form(case, first.reply) is not None:
            return None
        return RELATIONS[self.relation].second(case, first.reply.gradients, self.exponent)

    def judge_replies(self, context: Context, replies: Sequence[Reply]) -> Verdict:
        """Judge whether the relation holds."""
        if self.relation in RELATIONS:
            return self._compare(context.case, *replies)
        return check_one(self.relation, context.case, replies[0])

    def _compare(self, case: Case, first: Reply, second: Reply) -> Verdict:
        relation = RELATIONS[self.relation]
        following = relation.second(case, first.gradients, self.exponent)
        if (broken := find_broken_form(following, second)) is not None:
            return replace(broken, detail=f"In the second call {relation.says}. {broken.detail}")
        worst, status, detail = 0.0, Status.PASS, ""
        errors = predict(case).errors
        back = relation.back(case, second.gradients)
        for i, (given, one, other) in enumerate(zip(case.gradients, first.gradients, back, strict=True)):
            if given.array is None or one is None or other is None:
                continue
            distance, place = self._measure_distance(given.array.dtype, one, other)
            budget = 0.0 if self.exponent else 2 * errors[i].clip_budget
            if distance <= max(worst, budget):
                worst = max(worst, distance)
                continue
            worst, bound = distance, 2 * errors[i].clip_bound
            status = Status.QUALITY if distance <= bound else Status.FAIL
            detail = (
                f"In the second call {relation.says}: element {place} of gradient {i} is then {distance:.3g} ulp "
                f"from the value that follows from the first call. The budget is {budget:.3g}; "
                f"twice the error bound is {bound:.3g}."
            )
        if status == Status.PASS:
            return Verdict(status, ulp=worst)
        return Verdict(status, detail, worst, show_gradients(first.gradients), show_gradients(second.gradients))

    def _measure_distance(self, dtype: str, first: Array, second: Array) -> tuple[float, int]:
        related = ExpectedArray(decode(convert_to_dtype(first, dtype), dtype)).multiply_by(Fraction(2) ** self.exponent)
        return measure_largest_distance(convert_to_dtype(second, dtype), related, dtype)

    def select_explained_results(self, reply: Reply) -> Sequence[Array | None] | None:
        """Return the results. A formula explains a relation if it explains each of the answers."""
        return reply.gradients

    def describe(self, case: Case) -> Sequence[Part]:
        """Return the second call and its relation to the first, or the relation that holds in one call."""
        if self.relation not in RELATIONS:
            return (OF_ONE[self.relation].holds,)
        relation = RELATIONS[self.relation]
        says = f"A second call follows, in which {relation.says}."
        holds = f"{relation.holds} {describe_distance_between_calls(case, exact=self.exponent != 0)}"
        if relation.of_results:
            # The second call is made from results, which do not exist yet.
            return (says, holds)
        second = relation.second(case, (), self.exponent)
        return (says, {"operation": second.operation, **show_input(second)}, holds)

    def choose_case_to_show(self, case: Case, cell: Cell) -> Case | None:
        """Return the call whose results are wrong by themselves.

        If the results of two calls differ by more than their error bounds, at least one of them is wrong.

        Raises
        ------
        NoScript
            If each call by itself is right.
        """
        relation = RELATIONS.get(self.relation)
        first = replace(case, expectation=expect("values"))
        if isinstance(cell.observed, Mapping) and "raised" in cell.observed:
            # The record does not say which call raised. The call with split or scaled gradients is more likely.
            if relation is None or self.relation == "twice":
                return first
            return relation.second(first, (), self.exponent)
        shown = self.show_first(cell)
        if not isinstance(shown, Mapping) or not ("gradients" in shown or "norm" in shown):
            msg = f"{case.id} relates calls, and the record does not hold their answers."
            raise NoScript(msg)
        results = read_shown_arrays(shown.get("gradients"), [gradient.array for gradient in case.gradients])
        pairs = zip(results, case.gradients, strict=True)
        if any(one is not None and given.array is not None and one.dtype != given.array.dtype for one, given in pairs):
            # A result in another dtype is wrong without any comparison.
            return first
        if measure(first, predict(first), results, first.included).grade == Status.FAIL:
            return first
        if relation is None:
            msg = f"A script cannot show what {case.id} expects: each of its numbers is right by itself."
            raise NoScript(msg)
        return relation.second(first, results, self.exponent)

    def show_first(self, cell: Cell) -> Any:
        """Return the first of two answers, which the record shows as the expected answer."""
        return cell.expected if self.relation in RELATIONS else cell.observed
