"""Explain one wrong cell of an entry point.

A cell passes through stages, from answers without results to the results of each call. The first stage that speaks of
a cell explains it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from gradclip_adapters.contract import Reply
from gradclip_reports.statuses import Status

from ..cases.model import Case
from ..judge.calls import Calls
from ..judge.model import Context, Verdict
from ..oracle.formula import PLAIN
from .effects import explain_effect
from .facts import Seen
from .forms import explain_form, explain_refusal, list_norms
from .laws import explain_by_formula
from .meshes import list_on_mesh
from .model import Explanation, Judged
from .ranges import list_ranges
from .results import LONG_SUM, explain_results, intersect
from .right import is_right
from .subject import EXPLAINED, LOST_NORMS, Subject
from .unusual import explain_derivative, explain_groups, explain_repeated, has_dense_rows

__all__ = ["explain"]

#: Rules that forbid a simple sum in the dtype of the gradients.
PRECISION = frozenset({"half-not-accumulated-in-half", "large-tensor-accuracy"})


@dataclass(frozen=True)
class _Wrong:
    """A wrong cell, and what the stages read."""

    subject: Subject
    judged: Judged

    @property
    def context(self) -> Context:
        return self.judged.context

    @property
    def case(self) -> Case:
        return self.judged.context.case

    @property
    def verdict(self) -> Verdict:
        return self.judged.verdict

    @cached_property
    def calls(self) -> Calls:
        return Calls(self.judged.context, self.judged.answers)

    @property
    def reply(self) -> Reply:
        return self.calls.replies[0]

    @cached_property
    def first(self) -> Seen:
        """The results of the first call."""
        return Seen(self.case, self.reply.gradients)

    @cached_property
    def part(self) -> str:
        """The rule about the part of the answer that is wrong. It may differ from the rule of the case."""
        return (self.verdict.breaks or "").partition(".")[2] or self.calls.expectation.rule

    @property
    def returns_norm(self) -> bool:
        return "returns_norm" in self.context.subject.features

    def list_norms(self) -> list[list[Explanation]]:
        """Return, for each call, the explanations of the norm that came back."""
        pairs = zip(self.calls.cases, self.calls.replies, strict=True)
        return [list_norms(case, reply.norm) for case, reply in pairs]


def explain(subject: Subject, judged: Judged) -> list[Explanation]:
    """Return each explanation of one cell, the most specific one first."""
    if judged.explanation is not None:
        return [judged.explanation]
    if not judged.answers or judged.verdict.status not in EXPLAINED:
        return []
    wrong = _Wrong(subject, judged)
    # Models may compute with any numbers, so their arithmetic may overflow.
    with np.errstate(all="ignore"):
        every = next(found for stage in STAGES if (found := stage(wrong)) is not None)
        return list_on_mesh(judged, every) if "mesh" in wrong.case.options else every


def _explain_by_formula(wrong: _Wrong) -> list[Explanation] | None:
    """Explain answers that the judge has already compared with a formula."""
    return None if wrong.verdict.formula is None else [explain_by_formula(wrong.verdict.formula)]


def _explain_refusal(wrong: _Wrong) -> list[Explanation] | None:
    """Explain answers that hold no results."""
    for answer in wrong.judged.answers:
        if (found := explain_refusal(wrong.context, answer)) is not None:
            return [found]
    if len(wrong.calls.replies) < len(wrong.judged.answers):
        return []
    return [Explanation.of("malformed")] if any(reply.malformed is not None for reply in wrong.calls.replies) else None


def _explain_form(wrong: _Wrong) -> list[Explanation] | None:
    """Explain results of a wrong form, whatever the rule is about."""
    is_wrong = has_dense_rows(wrong.first) or explain_form(wrong.first) is not None
    return explain_results(wrong.subject, wrong.first) if is_wrong else None


def _explain_effect(wrong: _Wrong) -> list[Explanation] | None:
    """Explain what the call does besides its results."""
    found = explain_effect(wrong.part, wrong.reply)
    return None if found is None else [found]


def _explain_norm(wrong: _Wrong) -> list[Explanation] | None:
    """Explain a wrong returned norm, by itself or by a cause that reproduces the results."""
    if wrong.part not in ("returned-norm", "returned-norm-nonfinite"):
        return None
    found = [*_explain_survival(wrong), *list_norms(wrong.case, wrong.reply.norm)]
    if found or not wrong.first.operation.is_by_norm or is_right(wrong.first):
        return found
    return explain_results(wrong.subject, wrong.first)


def _explain_written(wrong: _Wrong) -> list[Explanation] | None:
    """Explain the arrays that the passed gradients hold after the call."""
    if wrong.part != "in-place-written":
        return None
    if wrong.reply.inputs is None:
        return []
    written = Seen(wrong.case, wrong.reply.inputs)
    if is_right(written):
        return _explain_small_difference(wrong, [written])
    found = explain_results(wrong.subject, written)
    is_unclipped = any(one.cause == "not-clipped" for one in found)
    return [Explanation.of("not-written", "unclipped")] if is_unclipped else found


def _explain_unusual(wrong: _Wrong) -> list[Explanation] | None:
    """Explain results that no formula gives."""
    if wrong.verdict.breaks is not None or wrong.case.expectation.name not in UNUSUAL:
        return None
    found = UNUSUAL[wrong.case.expectation.name](wrong)
    return [] if found is None else [found]


UNUSUAL: dict[str, Callable[[_Wrong], Explanation | None]] = {
    "derivative": lambda wrong: explain_derivative(wrong.first),
    "update": lambda wrong: explain_groups(wrong.first),
    "scaled-once": lambda wrong: explain_repeated(wrong.first, wrong.subject.formulas),
    # If stored rows are not added, the first stages explain it. There is no other model.
    "sparse-sum": lambda _: None,
}


def _explain_calls(wrong: _Wrong) -> list[Explanation]:
    """Explain the results of each call."""
    calls = wrong.calls
    if not calls.are_answered:
        return []
    has_right_norm = wrong.returns_norm and all(norm == [LONG_SUM] for norm in wrong.list_norms())
    pairs = zip(calls.cases, calls.replies, strict=True)
    every = [Seen(case, reply.gradients, has_right_norm) for case, reply in pairs]
    each = [explain_results(wrong.subject, seen) for seen in every if not is_right(seen)]
    if each:
        return intersect(each) + _explain_survival(wrong)
    if len(every) > 1 and wrong.returns_norm:
        # Several calls with right results may return different norms.
        norms = intersect([norm for norm in wrong.list_norms() if norm not in ([], [LONG_SUM])])
        if norms:
            return norms
    return _explain_small_difference(wrong, every)


#: The stages, each with what it needs from the stages before. The last one speaks of every cell.
STAGES: tuple[Callable[[_Wrong], list[Explanation] | None], ...] = (
    _explain_by_formula,
    _explain_refusal,
    _explain_form,
    _explain_effect,
    _explain_norm,
    _explain_written,
    _explain_unusual,
    _explain_calls,
)


def _explain_survival(wrong: _Wrong) -> list[Explanation]:
    """Explain results that are wrong after the next call, if other calls have right results."""
    is_late = wrong.case.theme == "results-survive"
    is_barred = "memory-reused" in wrong.subject.list_barred(wrong.first)
    return [Explanation.of("memory-reused")] if is_late and not is_barred else []


def _explain_small_difference(wrong: _Wrong, every: list[Seen]) -> list[Explanation]:
    """Explain results that are right within the error bound of the arithmetic."""
    if not wrong.first.operation.is_by_norm or not wrong.verdict.ulp:
        return []
    formulas = wrong.subject.formulas
    groups = [group for seen in every for group in seen.groups if group.total is None]
    found = [
        explain_by_formula(formula)
        for formula in formulas
        if all(group.follows(formula, careful=True) for group in groups if group.norm)
    ]
    is_broken = wrong.verdict.status in (Status.FAIL, Status.KNOWN) and all(group.is_plain for group in groups)
    # Some rules forbid a long sum in the dtype. Other rules require unchanged bits, which no sum explains.
    if not is_broken or wrong.case.theme in PRECISION:
        return [*found, LONG_SUM]
    # A little beyond the error bound, a norm that lost its digits may explain what a sum does not.
    differing = [group for group in groups if not group.follows(PLAIN, careful=True)]
    each = [list_ranges(group, [PLAIN, *formulas], wrong.subject.list_barred(group.seen)) for group in differing]
    return found + [one for one in intersect([one for one in each if one]) if one.cause in LOST_NORMS]
