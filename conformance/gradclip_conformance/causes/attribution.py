"""Compare the answers of one entry point with the models of all causes.

Ordinary calls are explained first. The law that explains most of them is tried first in the other calls, so that a
function that is wrong everywhere needs few comparisons per cell. A cause is named only if its model reproduces the
whole answer. If no model does, the answer stays unexplained.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from gradclip_adapters.arrays import convert_thresholds
from gradclip_adapters.contract import Array, Reply
from gradclip_adapters.mesh import parse_mesh
from gradclip_adapters.operations import OPERATIONS
from gradclip_reports.statuses import DIFFERING, Status
from gradclip_spec.rules.causes import load_cause_groups

from ..cases.build import make_tensor
from ..cases.model import Case
from ..cases.patterns import matches
from ..cases.stacking import list_tensors, regroup_units
from ..judge.expectation import take_rows
from ..judge.judging import follow_up
from ..judge.model import Replied, Verdict
from ..oracle.formats import FORMATS, read_float64_values
from ..oracle.formula import PLAIN, Formula
from ..oracle.question import get_clipping_threshold
from .facts import Group, Kind, Seen, is_right_for_nonfinite
from .forms import explain_form, explain_norm, explain_refusal, restore_form, strip_numbers
from .laws import (
    BESIDE_EMPTY,
    ENOUGH,
    FORMULA_CAUSES,
    LAWS,
    Law,
    explain_by_formula,
    fit_floor,
    fit_formula,
    fit_multiple,
    follows_formula,
    is_partly_clipped,
    is_plain,
    leaves_some,
    make_floor,
    make_multiple,
    make_signed,
)
from .meaning import counts_nonfinite_excluded, explain_excluded, explain_special
from .meshes import explain_on_meshes, name_epsilon_per_rank
from .model import Explanation, Judged, Suspect, combine, unite
from .order import restore_orders
from .ranges import explain_range, explain_rounding
from .unusual import explain_derivative, explain_groups, explain_repeated, explain_rows, has_dense_rows
from .values import explain_value, is_right_value

__all__ = ["EXPLAINED", "explain_all", "explain_cell"]

#: After this many unexplained cells in a row with one rule, status and kind of answer, no more of them are examined.
PATIENCE = 3

#: A cause that has explained this many cells is tried first, or preferred to others.
PROVEN = 3

#: A narrower dtype must explain this many cells, because the coefficient of one cell may have few digits by chance.
TWICE = 2

#: The largest number of cells that are used to fit a formula.
FITTING = 200

#: The statuses of cells that are explained.
EXPLAINED = DIFFERING - {Status.ERROR, Status.NOT_RUN}

#: The statuses of cells that break a rule. Documented and declared answers differ for another reason.
BREAKING = EXPLAINED - {Status.DOCUMENTED, Status.DECLARED}

#: The explanation of a right answer. One answer of a cell may be right, although another one is wrong.
RIGHT = Explanation("")


@dataclass
class _Subject:
    """The knowledge about one entry point, collected from its cells."""

    #: The causes that cannot apply in each dtype, because the entry point keeps the rules that they break.
    barred: dict[str, set[str]] = field(default_factory=dict)
    #: The dtypes in which ordinary calls are right.
    ordinary: frozenset[str] = frozenset()
    #: The dtypes in which ordinary calls were made at all.
    called: frozenset[str] = frozenset()
    #: The causes that explain answers to gradients in a list.
    shown: set[str] = field(default_factory=set)
    formulas: list[Formula] = field(default_factory=list)
    #: The laws with a fitted number.
    fitted: Sequence[Law] = ()
    #: The causes that the entry point is known to have.
    suspected: frozenset[str] = frozenset()
    #: The number of cells that each cause has explained.
    proven: Counter[str] = field(default_factory=Counter)
    #: The narrower dtypes in which cells show that the entry point computes.
    narrow: set[str] = field(default_factory=set)
    #: The number of unexplained cells in a row, by rule, status and kind of answer.
    lost: Counter[tuple[str, str, str]] = field(default_factory=Counter)

    views: dict[tuple[int, ...], Seen] = field(default_factory=dict)

    def see(self, case: Case, results: Sequence[Array | None]) -> Seen:
        """Return an answer as the models see it. Cache it, so that comparisons are not repeated."""
        key = (id(case), *map(id, results))
        if key not in self.views:
            self.views[key] = Seen(case, results)
        return self.views[key]

    def list_laws(self, case: Case) -> list[Law]:
        """Return the laws that may explain a case. Those that have explained most cells come first.

        If ordinary calls are right, a law for all calls does not explain why a call at a limit of the range is wrong.
        Ordinary calls have the Euclidean norm. Gradients in another form than a list show such a law only if lists
        show it, too.
        """
        is_refuted = case.theme in LIMITS and case.norm_type == 2 and case.dtype in self.ordinary
        refuted = EVERYWHERE if is_refuted else frozenset()
        if case.theme in FORMS and case.dtype in self.called:
            refuted = EVERYWHERE - self.shown
        added = [formula.eps for formula in self.formulas if formula.kind == "coefficient"]
        # MindSpore rounds the epsilon to float32, too.
        signed = [make_signed(number) for eps in added for number in (eps, float(np.float32(eps)))]
        every = [law for law in (*LAWS, *self.fitted, *signed) if law.cause not in refuted]
        # A formula with a small epsilon is almost right. The error of a long sum would explain it, too.
        times = {law.cause: self.proven[law.cause] for law in every if law.cause != "long-sum"}
        return sorted(every, key=lambda law: -times.get(law.cause, 0) if times.get(law.cause, 0) >= PROVEN else 0)


#: For each cause with a fitted number, a function that returns its law.
FITTED = {"multiple": make_multiple, "threshold-replaced": make_floor}


#: The causes of laws that change the results of almost every call above the threshold.
EVERYWHERE = frozenset(
    {"no-root", "mean-of-squares", "other-average", "sum-of-norms", "largest-of-norms", "sign-flipped", "scaled-twice"}
    | {"coefficient-inverted", "unit-norm", "multiple"}
)

#: Rules about calls in which the arithmetic may leave the range.
LIMITS = frozenset(
    {"overflow-of-squares", "underflow-of-squares", "coefficient-underflow", "intermediate-range", "subnormal"}
)

#: Rules about calls that pass the gradients in another form than a list.
FORMS = frozenset({"any-iterable", "single-tensor"})


def explain_cell(
    judged: Judged, suspects: Collection[Suspect] = (), barred: Collection[str] = ()
) -> Explanation | None:
    """Return the explanation of one cell alone, or None if no model reproduces it.

    `suspects` holds the causes that the entry point is known to have. Their formulas need not be fitted from other
    cells, and they are preferred if several models reproduce the answer. `barred` holds causes that are left out.
    """
    subject = _Subject(
        barred={judged.context.case.dtype: set(barred)},
        # If causes are known, a law that lists show is among them.
        called=frozenset({judged.context.case.dtype} if suspects else ()),
        shown={one.cause for one in suspects},
        formulas=_list_declared([judged]),
        proven=Counter({one.cause: PROVEN for one in suspects}),
        suspected=frozenset(one.cause for one in suspects),
    )
    kinds = {cause: kind for kind, cause in FORMULA_CAUSES.items()}
    for one in suspects:
        if one.cause == "narrower-arithmetic":
            subject.narrow |= {str(one.parameters["dtype"])} if "dtype" in one.parameters else set(FORMATS)
        if one.cause in kinds and "eps" in one.parameters:
            formula = Formula(kinds[one.cause], float(one.parameters["eps"]))
            subject.formulas += [formula] if formula not in subject.formulas else []
        elif one.cause in FITTED and "number" in one.parameters:
            subject.fitted = [*subject.fitted, FITTED[one.cause](float(one.parameters["number"]))]
    if "mesh" in judged.context.case.options:
        (found,) = explain_on_meshes([judged], [one.cause for one in suspects])
        if found is not None:
            return found
    return _explain(subject, judged)


def explain_all(
    cells: Sequence[Judged], asked: Collection[tuple[str, str, str]] = frozenset()
) -> list[Explanation | None]:
    """Return the explanation of each cell, or None for a cell that no model reproduces.

    `asked` holds a tuple of entry point, rule (without its operation) and dtype for each rule that was tested. If an
    entry point keeps a rule in a dtype, the cause that belongs to the rule cannot apply there.
    """
    by_subject: dict[str, list[int]] = {}
    for place, judged in enumerate(cells):
        by_subject.setdefault(judged.context.subject.name, []).append(place)
    found: list[Explanation | None] = [None] * len(cells)
    laws = {law.cause for law in LAWS} - {"long-sum"}
    enough = {"narrower-arithmetic": TWICE, "multiple": ENOUGH} | dict.fromkeys(laws, ENOUGH)
    for name, places in by_subject.items():
        mine = [cells[place] for place in places]
        subject = _Subject(
            barred=_list_barred(name, mine, asked),
            ordinary=_list_right_dtypes(name, mine, asked),
            called=_list_called(name, asked),
        )
        if OPERATIONS[mine[0].context.subject.operation].is_by_norm:
            with np.errstate(all="ignore"):
                _fit(subject, mine)
        subject.proven.update(judged.explanation.cause for judged in mine if judged.explanation is not None)
        # Explain ordinary calls first, because they show what the function does everywhere.
        for place in sorted(places, key=lambda place: (not _is_ordinary(cells[place]), _is_other_form(cells[place]))):
            one = found[place] = _explain(subject, cells[place])
            if one is not None and not _is_other_form(cells[place]):
                subject.shown.add(one.cause)
        for place in places:
            one = found[place]
            # One answer alone may agree with a law by chance.
            if one is None or cells[place].explanation is not None:
                continue
            if subject.proven[one.cause] < enough.get(one.cause, 0):
                again = _explain_again(subject, cells[place])
                kept = again is not None and subject.proven[again.cause] >= enough.get(again.cause, 0)
                found[place] = again if kept else None
        _drop_doubtful(cells, places, found)
        on_meshes = [place for place in places if _is_unexplained_on_a_mesh(cells[place])]
        for place, explanation in zip(on_meshes, explain_on_meshes([cells[place] for place in on_meshes]), strict=True):
            found[place] = explanation or name_epsilon_per_rank(cells[place].context.case, found[place])
    return found


def _is_unexplained_on_a_mesh(judged: Judged) -> bool:
    return "mesh" in judged.context.case.options and judged.explanation is None and judged.verdict.status in EXPLAINED


def _explain_again(subject: _Subject, judged: Judged) -> Explanation | None:
    """Explain an answer by a law that other cells have proven, or describe what came back."""
    replies = [answer.reply for answer in judged.answers if isinstance(answer, Replied)]
    case = judged.context.case
    if len(replies) != 1 or not OPERATIONS[case.operation].is_by_norm:
        return None
    seen = subject.see(case, take_rows(case, replies[0]).gradients)
    proven = (law for law in subject.list_laws(case) if subject.proven[law.cause] >= PROVEN)
    if (law := next((law for law in proven if law.reproduces(seen)), None)) is not None:
        return _explain_by_law(law)
    return unite({_explain_behaviour(group) for group in seen.groups if not _is_right_group(group)})


#: If the main defect of a function is unknown, these causes may explain a few of its answers by chance. Many of their
#: models assume that the function is right in ordinary calls.
DOUBTFUL = frozenset(
    {cause for group in load_cause_groups().values() for cause in group.causes if group.id == "arithmetic-limits"}
    | {"subnormals-flushed", "narrower-arithmetic", "gradients-zeroed", "gradients-nan", "not-clipped"}
    | {"value-one-sided", "not-exact-below", "multiple"}
    | {law.cause for law in LAWS}
    | {*FORMULA_CAUSES.values()}
)

#: Causes without a model: they only say what came back.
DESCRIPTIONS = frozenset({"gradients-zeroed", "gradients-nan", "not-clipped"})

#: A doubtful cause is dropped if more than this many answers stay unexplained for each answer that it explains.
FEW = 5

#: A description is dropped if it describes fewer ordinary answers than this for each one that stays unexplained.
MOST = 3


def _drop_doubtful(cells: Sequence[Judged], places: Sequence[int], found: list[Explanation | None]) -> None:
    """Drop each doubtful cause that explains fewer answers than stay unexplained.

    Many unexplained answers show that the main defect of the function is unknown. Then the models of doubtful causes
    explain a few of its effects by chance. Only ordinary calls are counted if one of them is unexplained. Otherwise
    all calls are counted, and a cause is dropped only if it explains very few of them (see `FEW`).
    """
    lost = [place for place in places if found[place] is None and cells[place].verdict.status in BREAKING]
    ordinary = {place for place in places if _is_ordinary(cells[place])}
    shown = ordinary if ordinary & set(lost) else set(places)
    # The answers that a cause must explain for each unexplained one: a model, and a description.
    shares = (1, MOST) if shown is ordinary else (1 / FEW, 1)
    times = Counter(one.cause for place in shown if (one := found[place]) is not None)
    many = len(shown.intersection(lost))
    for place in places:
        one = found[place]
        if one is None or one.cause not in DOUBTFUL:
            continue
        if times[one.cause] < many * shares[one.cause in DESCRIPTIONS]:
            found[place] = cells[place].explanation


def _is_ordinary(judged: Judged) -> bool:
    return judged.context.case.theme in ORDINARY


def _is_other_form(judged: Judged) -> bool:
    return judged.context.case.theme in FORMS


def _list_called(name: str, asked: Collection[tuple[str, str, str]]) -> frozenset[str]:
    """Return the dtypes in which the first of the rules about ordinary calls was tested."""
    return frozenset(dtype for entry_point, rule, dtype in asked if entry_point == name and rule == "scaled-above")


def _list_right_dtypes(name: str, mine: Iterable[Judged], asked: Collection[tuple[str, str, str]]) -> frozenset[str]:
    """Return the dtypes in which the entry point keeps the first of the rules about ordinary calls."""
    broken = {one.context.case.dtype for one in mine if one.context.case.theme == "scaled-above"}
    return _list_called(name, asked) - broken


def _list_barred(name: str, mine: Iterable[Judged], asked: Collection[tuple[str, str, str]]) -> dict[str, set[str]]:
    """Return, for each dtype, the causes that cannot apply, because the entry point keeps the rule that they break."""
    cases = [judged.context.case for judged in mine if judged.verdict.status in BREAKING]
    broken = {(case.theme, case.dtype) for case in cases}
    barred: dict[str, set[str]] = {}
    for entry_point, rule, dtype in asked:
        if entry_point == name and (rule, dtype) not in broken:
            barred.setdefault(dtype, set()).update(cause for cause, home in HOMES.items() if home == rule)
    return barred


#: Rules about calls in which nothing leaves the range.
ORDINARY = frozenset(
    {"scaled-above", "one-norm-over-all", "below-unchanged", "at-threshold", "single-tensor", "bounds"}
)


#: Rules that forbid a simple sum in the dtype of the gradients.
PRECISION = frozenset({"half-not-accumulated-in-half", "large-tensor-accuracy"})

#: For some causes, the rule that the cause breaks. If an entry point keeps the rule, the cause cannot apply.
HOMES = {
    "squares-overflow": "overflow-of-squares",
    "squares-underflow": "underflow-of-squares",
    "coefficient-underflow": "coefficient-underflow",
    "product-out-of-range": "intermediate-range",
}


def _list_declared(cells: Iterable[Judged]) -> list[Formula]:
    """Return the formulas that claims or adapters give for these cells, except the neutral rule."""
    found: dict[Formula, None] = {}
    for judged in cells:
        subject = judged.context.subject
        # The formula of a claim holds for the whole function, whatever rules the claim is about.
        found |= dict.fromkeys(
            claim.formula
            for claim in judged.context.claims
            if claim.formula is not None and matches(claim.subject, subject.name)
        )
        if subject.formula is not None:
            found[Formula.of(subject.formula)] = None
    return [formula for formula in found if formula != PLAIN]


def _fit(subject: _Subject, cells: Sequence[Judged]) -> None:
    views = []
    for judged in cells:
        replies = [answer.reply for answer in judged.answers if isinstance(answer, Replied)]
        if len(replies) == len(judged.answers) == 1 and judged.verdict.status in EXPLAINED:
            results = take_rows(judged.context.case, replies[0]).gradients
            if explain_form(judged.context.case, results) is None:
                views.append(subject.see(judged.context.case, results))
        if len(views) >= FITTING:
            break
    declared = _list_declared(cells)
    subject.formulas = [*declared, *(one for one in fit_formula(views) if one not in declared)]
    if subject.formulas:
        return
    if (floor := fit_floor(views)) is not None:
        subject.fitted = [make_floor(floor)]
        # The fit has compared this law with other cells. Small results of it look like underflows.
        subject.proven["threshold-replaced"] = PROVEN
    elif (number := fit_multiple(views)) is not None:
        subject.fitted = [make_multiple(number)]


def _explain(subject: _Subject, judged: Judged) -> Explanation | None:
    if judged.explanation is not None or not judged.answers or judged.verdict.status not in EXPLAINED:
        return judged.explanation
    rule, shown = judged.context.case.rule, judged.verdict.behaviour.partition(":")[0]
    key = (rule, judged.verdict.status, shown)
    if subject.lost[key] >= PATIENCE:
        return None
    # The answers under test may hold any numbers, so the arithmetic of the models may overflow.
    with np.errstate(all="ignore"):
        found = _explain_answers(subject, judged)
    if found is None:
        subject.lost[key] += 1
    else:
        subject.lost[key] = 0
        if found.cause == "narrower-arithmetic":
            subject.narrow |= {str(value) for name, value in found.parameters if name == "dtype"}
        # A norm of 1 where it must be 0 does not show what happens with other thresholds.
        if found.cause != "unit-norm" or get_clipping_threshold(judged.context.case) != 0:
            subject.proven[found.cause] += 1
    return found


def _explain_answers(subject: _Subject, judged: Judged) -> Explanation | None:
    context = judged.context
    if judged.verdict.formula is not None:
        # The judge has already compared the whole answer with this formula.
        return explain_by_formula(judged.verdict.formula)
    for answer in judged.answers:
        if (found := explain_refusal(context, answer)) is not None:
            return found
    replies = [take_rows(context.case, answer.reply) for answer in judged.answers if isinstance(answer, Replied)]
    if len(replies) < len(judged.answers):
        return None
    if any(reply.malformed is not None for reply in replies):
        return Explanation.of("malformed")
    if has_dense_rows(context.case, replies[0].gradients):
        return explain_rows(context.case, replies[0].gradients, subject.formulas)
    form = _explain_form(subject, context.case, replies[0].gradients)
    if form is not None or context.case.expectation.name == "sparse-sum":
        return form
    return _explain_replies(subject, judged, replies)


#: For each of these rules, the only cause that can break it. None of these rules is about the values of gradients.
ONLY = {
    "error-if-nonfinite": "error-flag-ignored",
    "error-if-nonfinite-atomic": "error-flag-ignored",
    "no-warnings": "warns",
    "results-independent": "memory-shared",
    "shards-as-whole": "processes-differ",
    "surroundings-kept": "surroundings-changed",
}

#: For some expectations, the rule about the part of the answer that the expectation judges.
ABOUT = {
    "raises-on-nonfinite": "error-if-nonfinite",
    "inputs-kept": "inputs-not-mutated",
    "inputs-written": "in-place-written",
    "returned-norm": "returned-norm",
    "no-warnings": "no-warnings",
    "no-shared-memory": "results-independent",
    "processes-agree": "shards-as-whole",
    "surroundings-kept": "surroundings-kept",
}


def _explain_replies(subject: _Subject, judged: Judged, replies: Sequence[Reply]) -> Explanation | None:
    case = judged.context.case
    # The broken rule may differ from the rule of the case.
    breaks = (judged.verdict.breaks or "").partition(".")[2]
    part = breaks or ABOUT.get(case.expectation.name, "")
    if part in ONLY:
        return Explanation.of(ONLY[part], **_say_more(part, replies[0]))
    if part in ("returned-norm", "returned-norm-nonfinite"):
        found = explain_norm(case, replies[0].norm, subject.proven)
        return _explain_by_proven(subject, case, replies[0].gradients) if found is None else found
    if part == "inputs-not-mutated":
        return Explanation.of("inputs-changed", effect=_say_what_inputs_hold(replies[0]))
    if part == "in-place-written":
        return _explain_written(subject, judged.verdict, case, replies[0].inputs)
    if not breaks and case.expectation.name in UNUSUAL:
        return _explain_unusual(subject, case, replies[0].gradients)
    following = follow_up(case, judged.answers[0])
    cases = [case] if following is None else [case, following]
    if len(cases) != len(replies):
        return None
    calls = [(one, reply.gradients) for one, reply in zip(cases, replies, strict=True)]
    each = {_explain_results(subject, *call) for call in calls} - {RIGHT}
    if {one.cause for one in each if one is not None} & LOST_NORMS and _returns_right_norms(judged, cases, replies):
        each = _explain_without(subject, LOST_NORMS, calls)
    if not each:
        norms = _explain_norms(judged, list(zip(cases, replies, strict=True)))
        return _explain_small_difference(subject, judged.verdict, calls) if norms is None else norms
    return unite(each)


#: Causes that make the norm zero, infinite or inaccurate. A right norm in the same answer refutes them.
LOST_NORMS = frozenset({"squares-overflow", "squares-underflow", "norm-out-of-range"})


def _returns_right_norms(judged: Judged, cases: Sequence[Case], replies: Sequence[Reply]) -> bool:
    """Return whether every reply holds the right norm, within the error bound of a sum in the dtype."""
    return "returns_norm" in judged.context.subject.features and all(
        explain_norm(case, reply.norm) == Explanation.of("long-sum") for case, reply in zip(cases, replies, strict=True)
    )


def _explain_without(
    subject: _Subject, causes: Collection[str], calls: Sequence[tuple[Case, Sequence[Array | None]]]
) -> set[Explanation | None]:
    """Return the explanations of several calls without some causes."""
    alone = replace(
        subject, barred={case.dtype: subject.barred.get(case.dtype, set()) | {*causes} for case, _ in calls}
    )
    return {_explain_results(alone, *call) for call in calls} - {RIGHT}


def _explain_norms(judged: Judged, calls: Sequence[tuple[Case, Reply]]) -> Explanation | None:
    """Explain several calls with right results by the norms that they return. Return None if these are right, too."""
    if len(calls) < 2 or "returns_norm" not in judged.context.subject.features:
        return None
    found = {explain_norm(case, reply.norm) for case, reply in calls} - {None, Explanation.of("long-sum")}
    return unite(found)


def _explain_by_proven(subject: _Subject, case: Case, results: Sequence[Array | None]) -> Explanation | None:
    """Explain a wrong returned norm by a cause that reproduces the results, if other cells show this cause, too."""
    if len(results) != len(case.gradients) or not OPERATIONS[case.operation].is_by_norm:
        return None
    found = _explain_results(subject, case, results)
    return found if found is not None and subject.proven[found.cause] >= PROVEN else None


#: Expectations of results that no formula gives.
UNUSUAL = ("scaled-once", "derivative", "update")


def _explain_unusual(subject: _Subject, case: Case, results: Sequence[Array | None]) -> Explanation | None:
    if case.expectation.name == "derivative":
        return explain_derivative(results)
    if case.expectation.name == "update":
        return explain_groups(case, results)
    return explain_repeated(case, results, subject.formulas)


def _say_more(part: str, reply: Reply) -> dict[str, str]:
    """Return the first text that the reply holds about a broken rule, as a parameter."""
    said = {
        "no-warnings": reply.warnings,
        "results-independent": reply.shared,
        "shards-as-whole": reply.apart,
        "surroundings-kept": reply.disturbed,
    }
    texts = said.get(part) or ()
    return {"text": strip_numbers(texts[0])} if texts else {}


def _say_what_inputs_hold(reply: Reply) -> str:
    pairs = zip(reply.inputs or (), reply.gradients, strict=False)
    return "results" if all(now == got for now, got in pairs) else "other"


def _explain_small_difference(
    subject: _Subject, verdict: Verdict, calls: Sequence[tuple[Case, Sequence[Array | None]]]
) -> Explanation | None:
    """Explain results that are right within the error bound of the arithmetic."""
    if not OPERATIONS[calls[0][0].operation].is_by_norm or not verdict.ulp:
        return None
    groups = [group for case, results in calls for group in subject.see(case, results).groups if group.total is None]
    for formula in subject.formulas:
        if all(follows_formula(group, formula, careful=True) for group in groups if group.norm):
            return explain_by_formula(formula)
    if all(map(is_plain, groups)) and verdict.status in (Status.FAIL, Status.CHANGED, Status.DEVIATION):
        # Some rules forbid a long sum in the dtype. Other rules require unchanged bits, which no sum explains.
        if calls[0][0].theme in PRECISION:
            return Explanation.of("long-sum")
        # A little beyond the error bound, a norm that lost its digits may explain what a sum does not.
        barred = subject.barred.get(calls[0][0].dtype, ())
        lost = {explain_range(group, [PLAIN, *subject.formulas], barred) for group in groups}
        return unite({one for one in lost if one is not None and one.cause in LOST_NORMS})
    return Explanation.of("long-sum")


def _explain_written(
    subject: _Subject, verdict: Verdict, case: Case, inputs: Sequence[Array | None] | None
) -> Explanation | None:
    if inputs is None:
        return None
    if (form := _explain_form(subject, case, inputs)) is not None:
        return form
    found = _explain_results(subject, case, inputs)
    if found is not None and found.cause == "not-clipped":
        return Explanation.of("not-written", "unclipped")
    return _explain_small_difference(subject, verdict, [(case, inputs)]) if found == RIGHT else found


#: Results in another order may seem to have one of these causes.
MISPLACED = frozenset({"shape-changed", "dtype-changed", "none-changed", "excluded-changed"})


def _explain_results(subject: _Subject, case: Case, results: Sequence[Array | None]) -> Explanation | None:
    """Explain the results of one call. Return `RIGHT` if they are right."""
    if subject.proven["order-changed"] >= PROVEN and (order := _explain_order(case, results)) is not None:
        return order
    if has_dense_rows(case, results):
        return explain_rows(case, results, subject.formulas)
    found = _explain_in_order(subject, case, results)
    if found is None and "mesh" in case.options and _are_right(_multiply_thresholds(case), results):
        return Explanation.of("addends-clipped")
    return _explain_order(case, results) or found if found is None or found.cause in MISPLACED else found


def _multiply_thresholds(case: Case) -> Case:
    """Return the case that clips the sum of equal addends as a clip of each addend does."""
    world = math.prod(parse_mesh(case.options["mesh"]).values())
    return replace(case, options=convert_thresholds(case.options, lambda value: world * value))


def _explain_order(case: Case, results: Sequence[Array | None]) -> Explanation | None:
    """Explain results that are right, but in another order."""
    found = any(_are_right(case, restored) for restored in restore_orders(case, results))
    return Explanation.of("order-changed") if found else None


def _are_right(case: Case, results: Sequence[Array | None]) -> bool:
    if explain_form(case, results) is not None or explain_excluded(case, results) is not None:
        return False
    if not OPERATIONS[case.operation].is_by_norm:
        return is_right_value(case, results)
    return all(map(_is_right_group, Seen(case, results).groups))


def _is_right_group(group: Group) -> bool:
    if group.total is None:
        return is_plain(group)
    # With an infinite threshold, gradients that are not finite may come back unchanged, too.
    unchanged = group.threshold == math.inf and {tensor.kind for tensor in group.tensors} == {Kind.SAME}
    return unchanged or is_right_for_nonfinite(group)


def _explain_in_order(subject: _Subject, case: Case, results: Sequence[Array | None]) -> Explanation | None:
    """Explain the results, if each belongs to the gradient at the same place."""
    if (form := _explain_form(subject, case, results)) is not None:
        return form
    if (excluded := explain_excluded(case, results)) is not None:
        return excluded
    if not OPERATIONS[case.operation].is_by_norm:
        barred = subject.barred.get(case.dtype, set())
        return RIGHT if is_right_value(case, results) else explain_value(case, results, barred, subject.proven)
    if OPERATIONS[case.operation].sums_examples:
        results = _share_nan(case, results)
    seen = subject.see(case, results)
    laws = subject.list_laws(case)
    if subject.proven[laws[0].cause] >= PROVEN and laws[0].reproduces(seen) and not all(map(is_plain, seen.groups)):
        return _explain_by_law(laws[0])
    each = {_explain_group(subject, group) for group in seen.groups}
    each.discard(RIGHT)
    if not each:
        return RIGHT
    # Several known causes are more likely than a law that also explains this answer, such as a long sum.
    if (found := unite(each) or _combine_suspected(subject, each)) is not None:
        return found
    if (found := _explain_whole(seen, laws)) is not None:
        return found
    rest = {_explain_group(subject, group) or _explain_behaviour(group) for group in seen.groups} - {RIGHT}
    # Leave out the cause "nonfinite-silent" if there is another one, too.
    silent = {one for one in rest if one is not None and one.cause == "nonfinite-silent"}
    rest = (rest - silent) if len(rest) > 1 else rest
    if OPERATIONS[case.operation].sums_examples and any(one is not None and _spoils_sum(subject, one) for one in rest):
        # The results are sums over the examples, so NaN in one of them is in all.
        rest = {one for one in rest if one is None or one.cause != "gradients-nan"}
    return unite(rest) or _combine_suspected(subject, rest)


def _spoils_sum(subject: _Subject, found: Explanation) -> bool:
    """Return whether the cause of one example makes the sum of all examples NaN.

    `_share_nan` gives NaN to examples of zeros. So their cause counts only if other cells show it, too.
    """
    return ("effect", "nan") in found.parameters or (found.cause in ZEROS_NAN and subject.proven[found.cause] > 0)


#: Causes that make gradients of zeros NaN.
ZEROS_NAN = frozenset({"zero-over-zero", "zero-norm-nan"})


def _share_nan(case: Case, results: Sequence[Array | None]) -> Sequence[Array | None]:
    """Return NaN for examples of zeros, too, if finite ones became NaN. In a sum, nobody can tell whose NaN it is."""
    values = [None if one.array is None else read_float64_values(one.array) for one in case.gradients]
    spoilt = (
        given is not None and got is not None and np.isfinite(given).all() and np.isnan(read_float64_values(got)).any()
        for given, got in zip(values, results, strict=True)
    )
    if not any(spoilt):
        return results
    return [
        got
        if given is None or given.any() or got is None
        else make_tensor([math.nan] * given.size, got.dtype, got.shape).array
        for given, got in zip(values, results, strict=True)
    ]


def _explain_whole(seen: Seen, laws: Iterable[Law]) -> Explanation | None:
    """Explain all results of a call by one law."""
    if OPERATIONS[seen.case.operation].divides_gradients and _has_other_units(seen.case, seen.results):
        return Explanation.of("other-units")
    law = next((law for law in laws if law.reproduces(seen)), None)
    return None if law is None else _explain_by_law(law)


def _has_other_units(case: Case, results: Sequence[Array | None]) -> bool:
    """Return whether each tensor is right, or would be right if it had other units."""
    numbers = {id(gradient): number for number, gradient in enumerate(case.gradients)}
    for parts in list_tensors(case.gradients):
        got = [result for part in parts if (result := results[numbers[id(part)]]) is not None]
        own = replace(case, gradients=tuple(parts))
        if not (_are_right(own, got) if len(got) == len(parts) else got == []) and not any(
            _are_right(replace(case, gradients=units), values) for units, values in regroup_units(parts, got)
        ):
            return False
    return True


def _combine_suspected(subject: _Subject, found: Collection[Explanation | None]) -> Explanation | None:
    """Return several causes of one answer, if the entry point is known to have each of them."""
    causes = {one.cause if one is not None else "" for one in found}
    return combine([one for one in found if one is not None]) if causes and causes <= subject.suspected else None


def _explain_form(subject: _Subject, case: Case, results: Sequence[Array | None]) -> Explanation | None:
    """Explain results of a wrong form. `effect` names the difference if the numbers themselves are right.

    If the numbers are wrong, too, and the entry point is known to return such a form, the explanation has both causes.
    """
    form = explain_form(case, results)
    if form is not None and form.cause in MISPLACED and (order := _explain_order(case, results)) is not None:
        return order
    if form is None or (restored := restore_form(case, results)) is None:
        return form
    effect, right = restored
    found = Explanation.of(form.cause, form.severity, **dict(form.parameters), effect=effect)
    numbers = _explain_results(subject, case, right)
    if numbers in (RIGHT, Explanation.of("long-sum")):
        return found
    if numbers is None or form.cause not in subject.suspected:
        return form
    return replace(numbers, others=(*numbers.others, found))


def _explain_by_law(law: Law) -> Explanation:
    return Explanation.of(law.cause) if law.number is None else Explanation.of(law.cause, number=law.number)


def _explain_group(subject: _Subject, group: Group) -> Explanation | None:
    if group.threshold >= 0 and (is_plain(group) if group.total is None else is_right_for_nonfinite(group)):
        return RIGHT
    if (found := explain_special(group, [PLAIN, *subject.formulas])) is not None:
        return found
    if group.total is not None or not group.threshold >= 0:
        return None
    if counts_nonfinite_excluded(group):
        return Explanation.of("excluded-counted")
    for formula in subject.formulas:
        if follows_formula(group, formula):
            return explain_by_formula(formula)
    # Old memory may make the norm infinite or NaN, too, and the gradients zero or unchanged.
    if BESIDE_EMPTY.cause in subject.suspected and (factor := BESIDE_EMPTY.factor(group)) is not None:
        return _explain_by_law(BESIDE_EMPTY) if group.is_scaled_by(factor * group.seen.rate) else None
    return _explain_arithmetic(subject, group)


def _explain_arithmetic(subject: _Subject, group: Group) -> Explanation | None:
    behaviour = None if subject.proven["narrower-arithmetic"] >= PROVEN else _explain_behaviour(group)
    if behaviour is not None and subject.proven[behaviour.cause] >= PROVEN:
        return behaviour
    formulas = [PLAIN, *subject.formulas]
    barred: Collection[str] = subject.barred.get(group.seen.case.dtype, ())
    if subject.proven["narrower-arithmetic"] >= PROVEN:
        narrow = explain_rounding(group, formulas, subject.narrow)
        return narrow or explain_range(group, formulas, barred) or _explain_behaviour(group)
    return explain_range(group, formulas, barred) or explain_rounding(group, formulas)


def _explain_behaviour(group: Group) -> Explanation | None:
    """Describe an answer that no model explains."""
    kinds = group.kinds
    if group.total is not None:
        return None
    if kinds == {Kind.SAME} and 0 <= group.threshold < group.norm:
        return Explanation.of("not-clipped", "unclipped")
    if kinds == {Kind.ZERO}:
        return Explanation.of("gradients-zeroed", "destroyed")
    if kinds == {Kind.NAN}:
        return Explanation.of("gradients-nan", "destroyed")
    return (
        Explanation.of("not-clipped", "unclipped", effect="some")
        if is_partly_clipped(group) or leaves_some(group)
        else None
    )
