"""Expect one call to be right in all respects. Calls of a million elements are measured in long doubles."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from gradclip_adapters.contract import Reply
from gradclip_adapters.operations import OPERATIONS
from gradclip_reports.statuses import Status

from ...cases.model import Case
from ...cases.readable import show_gradients
from ...oracle.comparison import Comparison
from ...oracle.distances import Measured
from ...oracle.formats import has_long_doubles
from ...oracle.formula import PLAIN, Formula
from ...oracle.long_doubles import make_whole_call
from ..expectation import Expectation, Part, find_broken_form, has_option_for_errors
from ..fingerprint import describe_results, describe_what_happened, show_answer
from ..model import Answer, Context, Raised, Replied, Verdict


@dataclass(frozen=True)
class Combination(Expectation):
    """The call keeps all rules. The elements are judged here, and the other rules as for all cases (see `everywhere`).

    `exact`: no order of the sum rounds the norm, so that only one side of the threshold is right.
    """

    name: ClassVar[str] = "combination"
    judges_elements: ClassVar[bool] = True
    is_about_all: ClassVar[bool] = True
    exact: bool = False

    def judge_answers(self, context: Context, answers: Sequence[Answer]) -> Verdict | None:
        """Accept an error if a norm is not finite, and no option asks for errors."""
        (answer,) = answers
        if not isinstance(answer, Raised):
            return None
        case = context.case
        norms = [group.norm for group in make_whole_call(case).groups] if OPERATIONS[case.operation].is_by_norm else []
        if not all(map(np.isfinite, norms)) and not has_option_for_errors(context):
            return Verdict(Status.PASS, observed=show_answer(answer))
        detail = f"A result was expected, but the call {describe_what_happened(case, answer)}."
        return Verdict(Status.FAIL, detail, observed=show_answer(answer))

    def judge_replies(self, context: Context, replies: Sequence[Reply]) -> Verdict:
        """Judge the included elements. The verdict names the rule that they break."""
        if not has_long_doubles():
            detail = "This machine cannot judge the case: its long double has too few digits."
            return Verdict(Status.UNSUPPORTED, detail)
        case, results = context.case, replies[0].gradients
        operation, call = OPERATIONS[case.operation], make_whole_call(case)
        if operation.is_by_norm and call.hides_norm(results):
            detail = "A norm is not finite. The formula's result, NaN everywhere or an error must show it."
            observed = show_answer(Replied(replies[0]))
            return Verdict(Status.FAIL, detail, observed=observed, breaks=f"{operation.prefix}.nan-not-silent")
        found = self._measure(context, replies[0])
        if found.grade == Status.PASS:
            return Verdict(Status.PASS, ulp=found.ulp)
        rule = "bounds" if not operation.is_by_norm else "identity-below" if found.touched else "scaled-above"
        return Verdict(
            found.grade,
            found.write_sentence(case.operation),
            found.ulp,
            observed=show_gradients([results[found.tensor]]),
            breaks=f"{operation.prefix}.{rule}" if found.grade == Status.FAIL else None,
        )

    def _measure(self, context: Context, reply: Reply, formula: Formula = PLAIN) -> Measured:
        """Return the included element that is farthest from the result of a formula."""
        call, flushes = make_whole_call(context.case), context.flushes_subnormals
        if OPERATIONS[context.case.operation].is_by_norm:
            return call.measure(reply.gradients, formula, exact=self.exact, flushes=flushes)
        return call.measure_bounds(reply.gradients, keeps_zeros=not context.through_optimizer, flushes=flushes)

    def compare_formulas(self, context: Context, reply: Reply, formula: Formula) -> Comparison | None:
        """Compare results that the neutral rule finds wrong or poor with those of another formula."""
        if find_broken_form(context.case, reply) is not None:
            return None
        neutral = self._measure(context, reply)
        if neutral.grade == Status.PASS or formula == PLAIN:
            return None
        own = self._measure(context, reply, formula)
        return Comparison(neutral.ulp, own.ulp, own.grade, at_own_threshold=neutral.touched and own.ulp >= neutral.ulp)

    def describe(self, case: Case) -> Sequence[Part]:
        """Return the expected gradients, and the other parts that are judged."""
        return (
            *describe_results(case, type(self).__name__),
            "excluded gradients, None, dtypes, the norm and the gradients that were passed are judged, too",
        )
