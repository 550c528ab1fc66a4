"""Explain one wrong cell of an entry point.

Answers without results come first, then wrong forms, then what the broken rule is about, and last the results of each
call.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from gradclip_adapters.contract import Array
from gradclip_reports.statuses import Status

from ..cases.model import Case
from ..judge.calls import Calls
from ..oracle.formula import PLAIN
from .facts import Seen
from .fits import explain_by_formula
from .forms import explain_effect, explain_form, explain_refusal, is_norm_beyond, list_norms
from .meshes import list_on_mesh
from .model import Explanation, Judged
from .ranges import LOST_NORMS, list_ranges
from .results import LONG_SUM, explain_results, intersect
from .right import is_right
from .traits import EXPLAINED, Traits
from .unusual import explain_derivative, explain_groups, explain_repeated, has_dense_rows, is_overwritten
from .values import changes_signs_of_zeros

#: Rules that forbid a simple sum in the dtype of the gradients.
PRECISION = frozenset({"half-not-accumulated-in-half", "large-tensor-accuracy"})


@dataclass(frozen=True)
class _Wrong:
    """A wrong cell of an entry point."""

    traits: Traits
    judged: Judged
    #: The facts about results of the cell.
    facts: list[Seen] = field(default_factory=list)

    @property
    def case(self) -> Case:
        return self.judged.context.case

    @cached_property
    def calls(self) -> Calls:
        return Calls(self.judged.context, self.judged.answers)

    @cached_property
    def first(self) -> Seen:
        return self.see(self.case, self.calls.replies[0].gradients)

    def see(self, case: Case, results: Sequence[Array | None], has_right_norm: bool = False) -> Seen:
        self.facts.append(Seen(case, results, has_right_norm))
        return self.facts[-1]

    @property
    def is_long(self) -> bool:
        """Whether the facts take much memory."""
        # Results of a wrong form have no groups.
        return any("groups" in vars(seen) and seen.is_long for seen in self.facts)


def explain(traits: Traits, judged: Judged) -> list[Explanation]:
    """Return each explanation of one cell, the most specific one first."""
    if judged.explanation is not None:
        return [judged.explanation]
    is_answered = bool(judged.answers) or judged.verdict.formula is not None
    if not is_answered or judged.verdict.status not in EXPLAINED:
        return []
    # Models may compute with any numbers, so their arithmetic may overflow.
    with np.errstate(all="ignore"):
        wrong = _Wrong(traits, judged)
        every, is_long = _explain_answers(wrong), wrong.is_long
        del wrong
        if is_long:
            # Facts refer to each other, and the next run of the garbage collector may be far.
            gc.collect(0)
        return list_on_mesh(judged, every) if "mesh" in judged.context.case.options else every


def _explain_answers(wrong: _Wrong) -> list[Explanation]:
    """Explain answers without results and of a wrong form, and others by the part that is wrong."""
    # The judge has compared some answers with a formula.
    if wrong.judged.verdict.formula is not None:
        return [explain_by_formula(wrong.judged.verdict.formula)]
    for answer in wrong.judged.answers:
        if (refusal := explain_refusal(wrong.judged.context, answer)) is not None:
            return [refusal]
    replies = wrong.calls.replies
    if len(replies) < len(wrong.judged.answers):
        return []
    if any(reply.malformed is not None for reply in replies):
        return [Explanation.of("malformed")]
    # A wrong form counts first, whatever the rule is about.
    if has_dense_rows(wrong.first) or explain_form(wrong.first) is not None:
        return explain_results(wrong.traits, wrong.first)
    return _explain_part(wrong)


def _explain_part(wrong: _Wrong) -> list[Explanation]:
    """Explain the part of the answers that is wrong. The rule about it may differ from the rule of the case."""
    breaks, name = wrong.judged.verdict.breaks, wrong.case.expectation.name
    rule = (breaks or "").partition(".")[2] or wrong.calls.expectation.rule
    if (effect := explain_effect(rule, wrong.calls.replies[0])) is not None:
        return [effect]
    if rule in ("returned-norm", "returned-norm-nonfinite"):
        return _explain_norm(wrong)
    if rule == "in-place-written":
        return _explain_written(wrong)
    if breaks is None and name in UNUSUAL:
        found = UNUSUAL[name](wrong)
        return [] if found is None else [found]
    return _explain_calls(wrong)


#: Expectations of results that no formula gives.
UNUSUAL: dict[str, Callable[[_Wrong], Explanation | None]] = {
    "derivative": lambda wrong: explain_derivative(wrong.first),
    "update": lambda wrong: explain_groups(wrong.first),
    "scaled-once": lambda wrong: explain_repeated(wrong.first, wrong.traits.list_formulas(wrong.first)),
    # If stored rows are not added, the form of the results explains it. There is no other model.
    "sparse-sum": lambda _: None,
}


def _explain_norm(wrong: _Wrong) -> list[Explanation]:
    """Explain a wrong returned norm, by itself or by a cause that reproduces the results."""
    norm = wrong.calls.replies[0].norm
    found = [*_explain_survival(wrong), *list_norms(wrong.case, norm)]
    if is_norm_beyond(wrong.case, norm) and is_right(wrong.first):
        # The clip has the right norm, so its powers do not overflow.
        return [Explanation.predict("norm-out-of-range", effect="norm")]
    if found or not wrong.first.operation.is_by_norm or is_right(wrong.first):
        return found
    return explain_results(wrong.traits, wrong.first)


def _explain_written(wrong: _Wrong) -> list[Explanation]:
    """Explain the arrays that the passed gradients hold after the call."""
    inputs = wrong.calls.replies[0].inputs
    if inputs is None:
        return []
    written = wrong.see(wrong.case, inputs)
    if is_right(written):
        return _explain_small_difference(wrong, [written])
    found = explain_results(wrong.traits, written)
    is_unclipped = any(one.cause == "not-clipped" for one in found)
    return [Explanation.of("not-written", "unclipped")] if is_unclipped else found


def _explain_calls(wrong: _Wrong) -> list[Explanation]:
    calls = wrong.calls
    if not calls.are_answered:
        return []
    pairs = list(zip(calls.cases, calls.replies, strict=True))
    returns_norm = "returns_norm" in wrong.judged.context.subject.features
    norms = [list_norms(case, reply.norm) for case, reply in pairs] if returns_norm else []
    has_right_norm = returns_norm and all(norm == [LONG_SUM] for norm in norms)
    every = [wrong.see(case, reply.gradients, has_right_norm) for case, reply in pairs]
    each = [explain_results(wrong.traits, seen) for seen in every if not is_right(seen)]
    if each:
        found = intersect(each)
        # The results of the call that follows take long to predict if the call is long.
        return found if found and wrong.first.is_long else found + _explain_survival(wrong)
    if len(every) > 1 and (found := intersect([norm for norm in norms if norm not in ([], [LONG_SUM])])):
        # Several calls with right results may return different norms.
        return found
    return _explain_small_difference(wrong, every)


def _explain_survival(wrong: _Wrong) -> list[Explanation]:
    """Explain results that the next call has overwritten. Other calls have right results."""
    is_late = wrong.case.theme == "results-survive"
    is_barred = "memory-reused" in wrong.traits.list_barred(wrong.first)
    return [Explanation.predict("memory-reused")] if (is_late and not is_barred) or is_overwritten(wrong.first) else []


def _explain_small_difference(wrong: _Wrong, every: list[Seen]) -> list[Explanation]:
    """Explain results that are right within the error bound of the arithmetic, or as numbers but not as bits."""
    if not wrong.first.operation.is_by_norm:
        return [Explanation.of("zero-sign-lost")] if any(map(changes_signs_of_zeros, every)) else []
    if not wrong.judged.verdict.ulp:
        return []
    formulas = wrong.traits.list_formulas(wrong.first)
    groups = [group for seen in every for group in seen.groups if group.total is None]
    differing = [group for group in groups if not group.keeps_budget]
    # Where the neutral rule gives the results of a single call, too, its returned norm is inaccurate. Two calls may
    # differ by the last bits of an epsilon.
    found = [
        explain_by_formula(formula)
        for formula in formulas
        if (differing or len(every) > 1) and all(group.follows(formula, careful=True) for group in groups if group.norm)
    ]
    is_broken = wrong.judged.verdict.status in (Status.FAIL, Status.KNOWN) and all(group.is_plain for group in groups)
    # Some rules forbid a long sum in the dtype. Other rules require unchanged bits, which no sum explains.
    if not is_broken or wrong.case.theme in PRECISION:
        return [*found, LONG_SUM]
    # A little beyond the error bound, a norm that lost its digits may explain what a sum does not.
    each = [list_ranges(group, [PLAIN, *formulas], wrong.traits.list_barred(group.seen)) for group in differing]
    return found + [one for one in intersect([one for one in each if one]) if one.cause in LOST_NORMS]
