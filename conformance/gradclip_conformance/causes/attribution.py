"""Hold the answers of one entry point against the models of all causes, simplest first.

The models that explain ordinary calls come first: a function that is wrong everywhere is explained by few comparisons a
cell. A cause is named only if it reproduces the whole answer; other answers stay unexplained.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np

from gradclip_adapters.contract import Array, Reply
from gradclip_reports.statuses import DIFFERING, Status

from ..cases.model import Case
from ..judge.expectation import rows_only
from ..judge.judging import follow_up
from ..judge.model import Replied, Verdict, claims_for
from ..oracle.formula import PLAIN, Formula
from .facts import Group, Kind, Seen
from .forms import explain_form, explain_norm, explain_refusal
from .laws import (
    ENOUGH,
    LAWS,
    Law,
    explain_by_formula,
    fit_formula,
    fit_multiple,
    follows_formula,
    is_plain,
    multiple_of,
)
from .meaning import explain_excluded, explain_special
from .model import Explanation, Judged
from .ranges import explain_range, explain_rounding
from .values import explain_value, is_right_value

__all__ = ["EXPLAINED", "explain_all"]

#: A rule is given up after so many cells in a row that nothing explains.
PATIENCE = 3

#: A law comes first in all cells once it has explained so many.
PROVEN = 3

#: As many cells serve to find a formula.
FITTING = 200

#: The statuses of cells that are explained.
EXPLAINED = DIFFERING - {Status.ERROR, Status.NOT_RUN}

#: The answer is right by the neutral rule: what another call must explain.
RIGHT = Explanation("")


@dataclass
class _Subject:
    """The knowledge about one entry point that its cells have shown."""

    #: Causes whose own rule is kept.
    barred: set[str] = field(default_factory=set)
    formulas: list[Formula] = field(default_factory=list)
    multiple: Law | None = None
    #: How many cells each cause has explained.
    proven: Counter[str] = field(default_factory=Counter)
    #: How many cells in a row were not explained, by rule and what came back.
    lost: Counter[tuple[str, str, str]] = field(default_factory=Counter)

    views: dict[tuple[int, ...], Seen] = field(default_factory=dict)

    def see(self, case: Case, results: Sequence[Array | None]) -> Seen:
        """Return the view of an answer; what was compared once is not compared again."""
        key = (id(case), *map(id, results))
        if key not in self.views:
            self.views[key] = Seen(case, results)
        return self.views[key]

    @property
    def laws(self) -> list[Law]:
        """The laws, those first that have explained most."""
        every = [*LAWS, *([self.multiple] if self.multiple else [])]
        return sorted(every, key=lambda law: -self.proven[law.cause] if self.proven[law.cause] >= PROVEN else 0)


def explain_all(cells: Sequence[Judged], asked: Collection[tuple[str, str]] = frozenset()) -> list[Explanation | None]:
    """Return the explanation of each cell; None for a cell that no model reproduces.

    `asked` holds the entry points with the rules that were asked, without their operation: a rule that is kept tells
    which causes cannot be meant.
    """
    by_subject: dict[str, list[int]] = {}
    for place, judged in enumerate(cells):
        by_subject.setdefault(judged.context.subject.name, []).append(place)
    found: list[Explanation | None] = [None] * len(cells)
    fitted = {law.cause for law in LAWS} | {"multiple"}
    for name, places in by_subject.items():
        mine = [cells[place] for place in places]
        broken = {judged.context.case.theme for judged in mine if judged.verdict.status in EXPLAINED}
        kept = {rule for entry_point, rule in asked if entry_point == name} - broken
        subject = _Subject(barred={cause for cause, home in HOMES.items() if home in kept})
        if mine[0].context.subject.operation != "clip_by_value":
            with np.errstate(all="ignore"):
                _fit(subject, mine)
        # The ordinary calls show what the function does everywhere.
        for place in sorted(places, key=lambda place: cells[place].context.case.theme not in ORDINARY):
            found[place] = _explain(subject, cells[place])
        for place in places:
            # One answer alone may agree with a law by chance.
            if (one := found[place]) is not None and one.cause in fitted and subject.proven[one.cause] < ENOUGH:
                found[place] = None
    return found


#: Rules about calls in which nothing leaves the range.
ORDINARY = frozenset(
    {"scaled-above", "one-norm-over-all", "below-unchanged", "at-threshold", "single-tensor", "bounds"}
)


#: Rules that forbid a sum in the dtype.
PRECISION = frozenset({"half-not-accumulated-in-half", "large-tensor-accuracy"})

#: A cause is not named for a function that keeps the rule about it.
HOMES = {
    "squares-overflow": "overflow-of-squares",
    "squares-underflow": "underflow-of-squares",
    "coefficient-underflow": "coefficient-underflow",
    "product-out-of-range": "intermediate-range",
}


def _fit(subject: _Subject, cells: Iterable[Judged]) -> None:
    views = []
    for judged in cells:
        replies = [answer.reply for answer in judged.answers if isinstance(answer, Replied)]
        if len(replies) == len(judged.answers) == 1 and judged.verdict.status in EXPLAINED:
            results = rows_only(judged.context.case, replies[0]).gradients
            if explain_form(judged.context.case, results) is None:
                views.append(subject.see(judged.context.case, results))
        if len(views) >= FITTING:
            break
    declared = {
        claim.formula
        for judged in cells
        for claim in claims_for(judged.context.claims, judged.context.case.id, judged.context.subject)
        if claim.formula is not None and claim.formula != PLAIN
    }
    subject.formulas = [*declared, *(one for one in fit_formula(views) if one not in declared)]
    number = fit_multiple(views) if not subject.formulas else None
    subject.multiple = None if number is None else multiple_of(number)


def _explain(subject: _Subject, judged: Judged) -> Explanation | None:
    if judged.verdict.status not in EXPLAINED:
        return None
    rule, shown = judged.context.case.rule, judged.verdict.behaviour.partition(":")[0]
    key = (rule, judged.verdict.status, shown)
    if subject.lost[key] >= PATIENCE:
        return None
    # The answers under test hold anything, and models multiply it.
    with np.errstate(all="ignore"):
        found = _explain_answers(subject, judged)
    if found is None:
        subject.lost[key] += 1
    else:
        subject.lost[key] = 0
        subject.proven[found.cause] += 1
    return found


def _explain_answers(subject: _Subject, judged: Judged) -> Explanation | None:
    context = judged.context
    for answer in judged.answers:
        if (found := explain_refusal(context, answer)) is not None:
            return found
    replies = [rows_only(context.case, answer.reply) for answer in judged.answers if isinstance(answer, Replied)]
    if len(replies) < len(judged.answers):
        return None
    if any(reply.malformed is not None for reply in replies):
        return Explanation.of("malformed")
    if (form := explain_form(context.case, replies[0].gradients)) is not None:
        return form
    return _explain_replies(subject, judged, replies)


#: The expectations that leave one cause for an answer in the right form.
ONLY = {"raises-on-nonfinite": "error-flag-ignored", "inputs-kept": "inputs-changed"}


def _explain_replies(subject: _Subject, judged: Judged, replies: Sequence[Reply]) -> Explanation | None:
    case, name = judged.context.case, judged.context.case.expectation.name
    if name in ONLY:
        return Explanation.of(ONLY[name])
    if name == "returned-norm":
        return explain_norm(case, replies[0].norm)
    if name == "inputs-written":
        return _explain_written(subject, judged.verdict, case, replies[0].inputs)
    following = follow_up(case, judged.answers[0])
    cases = [case] if following is None else [case, following]
    if len(cases) != len(replies):
        return None
    calls = [(one, reply.gradients) for one, reply in zip(cases, replies, strict=True)]
    each = {_explain_results(subject, *call) for call in calls} - {RIGHT}
    if not each:
        return _explain_small_difference(subject, judged.verdict, calls)
    return each.pop() if len(each) == 1 else None


def _explain_small_difference(
    subject: _Subject, verdict: Verdict, calls: Sequence[tuple[Case, Sequence[Array | None]]]
) -> Explanation | None:
    """Explain results that are right within the error bound of the arithmetic."""
    if calls[0][0].operation == "clip_by_value" or not verdict.ulp:
        return None
    groups = [group for case, results in calls for group in subject.see(case, results).groups]
    for formula in subject.formulas:
        if all(follows_formula(group, formula, careful=True) for group in groups if group.norm):
            return explain_by_formula(formula)
    if all(map(is_plain, groups)) and verdict.status in (Status.FAIL, Status.CHANGED, Status.DEVIATION):
        # Bits were to be kept, or a sum in half precision is forbidden.
        return Explanation.of("long-sum") if calls[0][0].theme in PRECISION else None
    return Explanation.of("long-sum")


def _explain_written(
    subject: _Subject, verdict: Verdict, case: Case, inputs: Sequence[Array | None] | None
) -> Explanation | None:
    if inputs is None:
        return None
    if (form := explain_form(case, inputs)) is not None:
        return form
    found = _explain_results(subject, case, inputs)
    if found is not None and found.cause == "not-clipped":
        return Explanation.of("not-written", "unclipped")
    return _explain_small_difference(subject, verdict, [(case, inputs)]) if found == RIGHT else found


def _explain_results(subject: _Subject, case: Case, results: Sequence[Array | None]) -> Explanation | None:
    """Explain the results of one call; `RIGHT` if they are right."""
    if (form := explain_form(case, results)) is not None:
        return form
    if (excluded := explain_excluded(case, results)) is not None:
        return excluded
    if case.operation == "clip_by_value":
        return RIGHT if is_right_value(case, results) else explain_value(case, results)
    seen = subject.see(case, results)
    laws = subject.laws
    if subject.proven[laws[0].cause] >= PROVEN and laws[0].reproduces(seen) and not all(map(is_plain, seen.groups)):
        return _explain_by_law(laws[0])
    each = {_explain_group(subject, group) for group in seen.groups}
    each.discard(RIGHT)
    if not each:
        return RIGHT
    if len(each) == 1 and (found := each.pop()) is not None:
        return found
    law = next((law for law in laws if law.reproduces(seen)), None)
    if law is not None:
        return _explain_by_law(law)
    rest = {_explain_group(subject, group) or _explain_behaviour(group) for group in seen.groups} - {RIGHT}
    # A NaN that passes unseen beside gradients that the same function gets wrong anyway.
    silent = {one for one in rest if one is not None and one.cause == "nonfinite-silent"}
    rest = (rest - silent) if len(rest) > 1 else rest
    return rest.pop() if len(rest) == 1 else None


def _explain_by_law(law: Law) -> Explanation:
    return Explanation.of(law.cause) if law.number is None else Explanation.of(law.cause, number=law.number)


def _explain_group(subject: _Subject, group: Group) -> Explanation | None:
    if group.total is None and group.threshold >= 0 and is_plain(group):
        return RIGHT
    if (found := explain_special(group)) is not None:
        return found
    if group.total is not None or not group.threshold >= 0:
        return None
    for formula in subject.formulas:
        if follows_formula(group, formula):
            return explain_by_formula(formula)
    behaviour = _explain_behaviour(group)
    if behaviour is not None and subject.proven[behaviour.cause] >= PROVEN:
        return behaviour
    formulas = [PLAIN, *subject.formulas]
    return explain_range(group, formulas, subject.barred) or explain_rounding(group, formulas)


def _explain_behaviour(group: Group) -> Explanation | None:
    """Say what came back, if nothing says why."""
    kinds = group.kinds
    if kinds == {Kind.SAME} and group.total is None and 0 <= group.threshold < group.norm:
        return Explanation.of("not-clipped", "unclipped")
    if kinds == {Kind.ZERO}:
        return Explanation.of("gradients-zeroed", "destroyed")
    return Explanation.of("gradients-nan", "destroyed") if kinds == {Kind.NAN} else None
