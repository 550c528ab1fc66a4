"""Compare the answers of one entry point with the models of all causes.

A cause explains a cell if its model reproduces the whole answer. Often several causes explain a cell. The causes that
explain most cells of an entry point are named, fewest first (see `choose`). An answer that no model reproduces stays
unexplained.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

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
from ..oracle.formats import read_float64_values
from ..oracle.formula import PLAIN, Formula
from . import laws, ranges
from .choice import Options, choose, make_key
from .facts import MANY, Group, Kind, Seen, is_right_for_nonfinite
from .forms import explain_form, explain_refusal, list_norms, restore_form, strip_numbers
from .laws import (
    BESIDE_EMPTY,
    FITS,
    FORMULA_CAUSES,
    LAWS,
    Law,
    explain_by_formula,
    fit_formula,
    follows_formula,
    is_partly_clipped,
    is_plain,
    leaves_some,
    make_signed,
)
from .meaning import counts_nonfinite_excluded, explain_excluded, explain_special
from .meshes import PER_RANK, explain_on_meshes, name_epsilon_per_rank
from .model import Explanation, Judged, Suspect, combine, unite
from .order import restore_orders
from .ranges import list_ranges, list_roundings
from .unusual import (
    explain_derivative,
    explain_groups,
    explain_repeated,
    explain_rows,
    has_dense_rows,
    is_clipped_by_rows,
)
from .values import is_right_value, list_values

__all__ = ["EXPLAINED", "explain_all", "explain_cell"]

#: Numbers are fitted to this many cells, evenly spaced: each number needs two different norms, and a case has few.
FITTING = 200

#: At most so many short calls of each theme show which cause is likely.
FEW = 3

#: The explanation that most of these calls share is likely if it explains one in so many of them. A gradient takes as
#: long as this many elements.
LIKELY, ELEMENTS_OF_A_GRADIENT = 4, 32

#: The statuses of cells that are explained.
EXPLAINED = DIFFERING - {Status.ERROR, Status.NOT_RUN}

#: The statuses of cells that break a rule. Documented answers differ for another reason.
BREAKING = EXPLAINED - {Status.DOCUMENTED}

#: The explanation of a right answer. One answer of a cell may be right, although another one is wrong.
RIGHT = Explanation("")


@dataclass
class _Subject:
    """The knowledge about one entry point."""

    #: The causes that cannot apply in each dtype, because the entry point keeps the rules that they break.
    barred: dict[str, set[str]] = field(default_factory=dict)
    #: The formulas that explain cells, other than the neutral rule.
    formulas: list[Formula] = field(default_factory=list)
    #: The laws with a fitted number.
    fitted: Sequence[Law] = ()
    #: The causes that the entry point is known to have.
    suspected: frozenset[str] = frozenset()
    #: The causes of whole answers, which may explain a part of others.
    shown: frozenset[str] = frozenset()
    #: The causes that answers are compared with before all others: those that are known, or that of most short calls.
    likely: frozenset[str] = frozenset()
    #: Small calls, in which laws may be refuted, by the number of the case.
    small: dict[int, Seen] = field(default_factory=dict)

    def list_laws(self, case: Case) -> list[Law]:
        """Return the laws that may explain a case."""
        added = [formula.eps for formula in self.formulas if formula.kind == "coefficient"]
        # MindSpore rounds the epsilon to float32, too.
        signed = [make_signed(number) for eps in added for number in (eps, float(np.float32(eps)))]
        barred = self.list_barred(case)
        # A norm of 1 instead of 0 shows a replaced threshold sooner than a norm that is always 1.
        fitted = sorted(self.fitted, key=lambda law: law.cause != "threshold-replaced")
        return [law for law in (*fitted[:1], *LAWS, *fitted[1:], *signed) if law.cause not in barred]

    def list_barred(self, case: Case) -> set[str]:
        """Return the causes that cannot explain a case. Ordinary calls ask for one norm, the Euclidean one."""
        if case.options.get("layers"):
            return set()
        barred = self.barred.get(case.dtype, set())
        return barred if case.norm_type == 2 else {cause for cause in barred if BROKEN.get(cause) != laws.ABOVE}


def explain_cell(
    judged: Judged, suspects: Collection[Suspect] = (), barred: Collection[str] = ()
) -> Explanation | None:
    """Return the explanation of one cell alone, or None if no model reproduces it.

    `suspects` holds the causes that the entry point is known to have. Their formulas need not be fitted from other
    cells, and they are preferred if several models reproduce the answer. `barred` holds causes that are left out.
    """
    subject = _Subject(
        barred={judged.context.case.dtype: set(barred)},
        formulas=_list_declared([judged]),
        suspected=frozenset(one.cause for one in suspects),
        likely=frozenset(one.cause for one in suspects),
    )
    kinds = {cause: kind for kind, cause in FORMULA_CAUSES.items()}
    for one in suspects:
        if one.cause in kinds and "eps" in one.parameters:
            formula = Formula(kinds[one.cause], float(one.parameters["eps"]))
            subject.formulas += [formula] if formula not in subject.formulas else []
        for fit in FITS:
            if fit.cause == one.cause and fit.parameter in one.parameters:
                subject.fitted = [*subject.fitted, fit.make(float(one.parameters[fit.parameter]))]
    if "mesh" in judged.context.case.options:
        (found,) = explain_on_meshes([judged], [one.cause for one in suspects])
        if found is not None:
            return found
    options = _list_options(subject, judged).explanations
    known = [one for one in options if one.cause in subject.suspected]
    # A law that nothing else shows may agree with one answer by chance.
    return next(iter([*known, *(one for one in options if one.cause not in ALL_LAWS)]), None)


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
    for name, places in by_subject.items():
        mine = [cells[place] for place in places]
        subject = _Subject(barred=_list_barred(name, mine, asked))
        if OPERATIONS[mine[0].context.subject.operation].is_by_norm:
            with np.errstate(all="ignore"):
                _fit(subject, mine)
        options = _list_options_of_all(subject, mine)
        for place, explanation in zip(places, choose(options, DOUBTFUL), strict=True):
            found[place] = explanation
        _prefer_shown(found, dict(zip(places, options, strict=True)), cells)
        on_meshes = [place for place in places if _is_unexplained_on_a_mesh(cells[place])]
        explained = dict(zip(on_meshes, explain_on_meshes([cells[place] for place in on_meshes]), strict=True))
        times = Counter(one.cause for place in on_meshes for one in (explained[place], found[place]) if one is not None)
        for place, explanation in explained.items():
            other = found[place]
            # A single answer may agree with a model by chance.
            if explanation is None or (other is not None and times[other.cause] > times[explanation.cause]):
                found[place] = name_epsilon_per_rank(cells[place].context.case, other)
            else:
                found[place] = explanation
    return found


def _list_options_of_all(subject: _Subject, cells: Sequence[Judged]) -> list[Options]:
    """Return the explanations of the cells of one entry point, those of a few short calls of each theme first.

    To compare a short call with all models takes 10 ms, a long one up to a second, and a wrong function may have
    hundreds of wrong cells. So the few show the likely cause, with which all other cells are compared first.
    """
    few = _take_few_of_each_theme(cells)
    options = {place: _list_options(subject, cells[place]) for place in few}
    subject.shown = frozenset(one.cause for cell in options.values() for one in cell.explanations)
    if subject.shown & (ZEROS_NAN | {"narrower-arithmetic"}):
        # These causes also explain parts of answers that show little on their own.
        options = {place: _list_options(subject, cells[place]) for place in few}
    times = Counter(one.cause for one in choose(list(options.values()), DOUBTFUL) if one is not None)
    subject.likely = frozenset(cause for cause, count in times.most_common(1) if count > len(few) / LIKELY)
    return [options[place] if place in options else _list_options(subject, one) for place, one in enumerate(cells)]


def _take_few_of_each_theme(cells: Sequence[Judged]) -> list[int]:
    """Return the places of short calls, evenly spaced over those of their theme."""
    themes: dict[str, list[int]] = {}
    for place, judged in enumerate(cells):
        if _is_short(judged.context.case):
            themes.setdefault(judged.context.case.theme, []).append(place)
    return [place for places in themes.values() for place in places[:: math.ceil(len(places) / FEW)]]


def _prefer_shown(found: list[Explanation | None], options: Mapping[int, Options], cells: Sequence[Judged]) -> None:
    """On meshes, replace the error of a long sum by a formula that explains the cell and is shown by another one.

    The sums of these calls are short. But an epsilon of each rank, which the number of ranks multiplies, may be as
    small as the error bound of float32. Then float64 shows which of the two it is.
    """
    on_meshes = [place for place in options if _is_unexplained_on_a_mesh(cells[place])]
    formulas = {found[place] for place in on_meshes} - {None, Explanation.of("long-sum")}
    for place in on_meshes:
        if found[place] == Explanation.of("long-sum"):
            others = (one for one in options[place].explanations if one in formulas and one.cause in PER_RANK)
            found[place] = next(others, found[place])


def _is_unexplained_on_a_mesh(judged: Judged) -> bool:
    return "mesh" in judged.context.case.options and judged.explanation is None and judged.verdict.status in EXPLAINED


#: The causes of all laws. A long sum also has a model with an error bound, which one answer may show.
ALL_LAWS = frozenset([*(law.cause for law in LAWS), *(fit.cause for fit in FITS)]) - {BESIDE_EMPTY.cause, "long-sum"}

#: Causes of special calls. Their models cannot agree with an answer by chance.
SPECIAL = frozenset({"excluded-counted"} | {*FORMULA_CAUSES.values()})

#: If the main defect of a function is unknown, these causes may explain a few of its answers by chance. Many of their
#: models assume that the function is right in ordinary calls.
DOUBTFUL = (
    ALL_LAWS
    | {"norm-of-rows", "memory-reused", "value-bounds-rounded", BESIDE_EMPTY.cause}
    | {cause for group in load_cause_groups().values() for cause in group.causes if group.id == "arithmetic-limits"}
    | {"subnormals-flushed", "narrower-arithmetic", "gradients-zeroed", "gradients-nan", "not-clipped"}
    | {"value-one-sided", "value-bounds-mirrored", "value-outside-zeroed", "not-exact-below"}
    | {*FORMULA_CAUSES.values()}
)


def _list_barred(name: str, mine: Iterable[Judged], asked: Collection[tuple[str, str, str]]) -> dict[str, set[str]]:
    """Return, for each dtype, the causes that cannot apply, because of a rule that the entry point keeps or breaks."""
    cases = [judged.context.case for judged in mine if judged.verdict.status in BREAKING]
    broken = {(case.theme, case.dtype) for case in cases}
    barred: dict[str, set[str]] = {}
    for entry_point, rule, dtype in asked:
        if entry_point == name:
            rules = KEPT if (rule, dtype) in broken else BROKEN
            barred.setdefault(dtype, set()).update(cause for cause, own in rules.items() if own == rule)
    return barred


#: Rules about calls in which the arithmetic may leave the range. They refute no law.
LIMITS = frozenset(
    {"overflow-of-squares", "underflow-of-squares", "coefficient-underflow", "intermediate-range", "subnormal"}
)

#: Rules that forbid a simple sum in the dtype of the gradients.
PRECISION = frozenset({"half-not-accumulated-in-half", "large-tensor-accuracy"})

#: For some causes, the rule that the cause breaks. If an entry point keeps the rule, the cause cannot apply.
BROKEN = {**laws.BREAKS, **ranges.BREAKS}

#: A function with one of these causes keeps the rule. If an entry point breaks the rule, the cause cannot apply.
KEPT = {**laws.KEEPS, "memory-reused": laws.ABOVE}


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
    """Find the numbers of formulas and laws that several answers show. Whether they are named is decided later."""
    seen = []
    # The exact elements of long calls would take much memory.
    short = [one for one in cells if _count_elements(one.context.case) <= MANY]
    for judged in short[:: max(1, len(short) // FITTING)]:
        replies = [answer.reply for answer in judged.answers if isinstance(answer, Replied)]
        if len(replies) == len(judged.answers) == 1 and judged.verdict.status in EXPLAINED:
            results = take_rows(judged.context.case, replies[0]).gradients
            if explain_form(judged.context.case, results) is None:
                seen.append(Seen(judged.context.case, results))
    declared = _list_declared(cells)
    subject.formulas = [*declared, *(one for one in fit_formula(seen) if one not in declared)]
    subject.fitted = [fit.make(number) for fit in FITS if (number := fit.find(seen)) is not None]


def _is_short(case: Case) -> bool:
    return _count_elements(case) + ELEMENTS_OF_A_GRADIENT * len(case.gradients) <= MANY


def _count_elements(case: Case) -> int:
    return sum(math.prod(one.array.shape) for one in case.gradients if one.array is not None)


def _list_options(subject: _Subject, judged: Judged) -> Options:
    """Return the explanations of one cell. Models may compute with any numbers, so their arithmetic may overflow."""
    if judged.explanation is not None:
        return Options([judged.explanation])
    if not judged.answers or judged.verdict.status not in EXPLAINED:
        return Options([], counts=False)
    with np.errstate(all="ignore"):
        found = _explain_answers(subject, judged)
    return Options(found, partial(_refutes, subject, judged), judged.verdict.status in BREAKING)


def _refutes(subject: _Subject, judged: Judged, explanation: Explanation) -> bool:
    """Return whether the law of a cause predicts a wrong answer to an ordinary call. The observed answer is another."""
    case = judged.context.case
    seen = subject.small.get(id(case))
    if seen is None or case.theme in LIMITS:
        return False
    if explanation.cause == "norm-of-rows":
        return any(len(tensor.given.shape) > 1 for tensor in seen.tensors.values())
    with np.errstate(all="ignore"):
        return any(law.speaks_of(seen) for law in subject.list_laws(case) if law.explain() == explanation)


def _explain_answers(subject: _Subject, judged: Judged) -> list[Explanation]:
    context = judged.context
    if judged.verdict.formula is not None:
        # The judge has already compared the whole answer with this formula.
        return [explain_by_formula(judged.verdict.formula)]
    for answer in judged.answers:
        if (found := explain_refusal(context, answer)) is not None:
            return [found]
    replies = [take_rows(context.case, answer.reply) for answer in judged.answers if isinstance(answer, Replied)]
    if len(replies) < len(judged.answers):
        return []
    if any(reply.malformed is not None for reply in replies):
        return [Explanation.of("malformed")]
    if has_dense_rows(context.case, replies[0].gradients):
        return _list(explain_rows(context.case, replies[0].gradients, subject.formulas))
    form = _explain_form(subject, context.case, replies[0].gradients)
    if form or context.case.expectation.name == "sparse-sum":
        return form
    return _explain_replies(subject, judged, replies)


def _list(found: Explanation | None) -> list[Explanation]:
    return [] if found is None else [found]


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


def _explain_replies(subject: _Subject, judged: Judged, replies: Sequence[Reply]) -> list[Explanation]:
    case = judged.context.case
    # The broken rule may differ from the rule of the case.
    breaks = (judged.verdict.breaks or "").partition(".")[2]
    part = breaks or ABOUT.get(case.expectation.name, "")
    if part in ONLY:
        return [_explain_effect(part, replies[0])]
    if part in ("returned-norm", "returned-norm-nonfinite"):
        return [*_explain_survival(subject, case), *list_norms(case, replies[0].norm)] or _explain_by_results(
            subject, case, replies[0].gradients
        )
    if part == "inputs-not-mutated":
        return [Explanation.of("inputs-changed", effect=_say_what_inputs_hold(replies[0]))]
    if part == "in-place-written":
        return _explain_written(subject, judged.verdict, case, replies[0].inputs)
    if not breaks and case.expectation.name in UNUSUAL:
        return _list(_explain_unusual(subject, case, replies[0].gradients))
    following = follow_up(case, judged.answers[0])
    cases = [case] if following is None else [case, following]
    if len(cases) != len(replies):
        return []
    calls = [(one, reply.gradients) for one, reply in zip(cases, replies, strict=True)]
    barred: Collection[str] = ()
    if _returns_right_norms(judged, cases, replies):
        # A right norm in the same answer refutes causes that make it zero, infinite or inaccurate.
        barred = LOST_NORMS
    each = [found for call in calls if (found := _explain_results(subject, *call, barred)) != [RIGHT]]
    if not each:
        found = _explain_norms(judged, list(zip(cases, replies, strict=True)))
        return found or _explain_small_difference(subject, judged.verdict, calls)
    return _intersect(each) + _explain_survival(subject, case)


def _explain_survival(subject: _Subject, case: Case) -> list[Explanation]:
    """Explain results that are wrong after the next call, if other calls have right results."""
    is_late = case.theme == "results-survive" and "memory-reused" not in subject.list_barred(case)
    return [Explanation.of("memory-reused")] if is_late else []


def _explain_effect(part: str, reply: Reply) -> Explanation:
    cause, more = ONLY[part], _say_more(part, reply)
    if cause == "memory-shared" and "cannot be written" in more.get("text", ""):
        cause = "results-read-only"
    return Explanation.of(cause, **more)


#: Causes that make the norm zero, infinite or inaccurate. A right norm in the same answer refutes them.
LOST_NORMS = frozenset({"squares-overflow", "squares-underflow", "norm-out-of-range"})


def _returns_right_norms(judged: Judged, cases: Sequence[Case], replies: Sequence[Reply]) -> bool:
    """Return whether every reply holds the right norm, within the error bound of a sum in the dtype."""
    return "returns_norm" in judged.context.subject.features and all(
        list_norms(case, reply.norm) == [Explanation.of("long-sum")] for case, reply in zip(cases, replies, strict=True)
    )


def _explain_norms(judged: Judged, calls: Sequence[tuple[Case, Reply]]) -> list[Explanation]:
    """Explain several calls with right results by the norms that they return. Return nothing if these are right."""
    if len(calls) < 2 or "returns_norm" not in judged.context.subject.features:
        return []
    each = [list_norms(case, reply.norm) for case, reply in calls]
    return _intersect([found for found in each if found != [Explanation.of("long-sum")] and found])


def _explain_by_results(subject: _Subject, case: Case, results: Sequence[Array | None]) -> list[Explanation]:
    """Explain a wrong returned norm by a cause that reproduces the results."""
    if len(results) != len(case.gradients) or not OPERATIONS[case.operation].is_by_norm:
        return []
    found = _explain_results(subject, case, results)
    return [] if found == [RIGHT] else found


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
) -> list[Explanation]:
    """Explain results that are right within the error bound of the arithmetic."""
    if not OPERATIONS[calls[0][0].operation].is_by_norm or not verdict.ulp:
        return []
    groups = [group for case, results in calls for group in Seen(case, results).groups if group.total is None]
    found = [
        explain_by_formula(formula)
        for formula in subject.formulas
        if all(follows_formula(group, formula, careful=True) for group in groups if group.norm)
    ]
    if all(map(is_plain, groups)) and verdict.status in (Status.FAIL, Status.KNOWN):
        # Some rules forbid a long sum in the dtype. Other rules require unchanged bits, which no sum explains.
        if calls[0][0].theme in PRECISION:
            return [*found, Explanation.of("long-sum")]
        # A little beyond the error bound, a norm that lost its digits may explain what a sum does not.
        barred = subject.list_barred(calls[0][0])
        differing = [group for group in groups if not follows_formula(group, PLAIN, careful=True)]
        each = [list_ranges(group, [PLAIN, *subject.formulas], barred) for group in differing]
        return found + [one for one in _intersect([one for one in each if one]) if one.cause in LOST_NORMS]
    return [*found, Explanation.of("long-sum")]


def _explain_written(
    subject: _Subject, verdict: Verdict, case: Case, inputs: Sequence[Array | None] | None
) -> list[Explanation]:
    if inputs is None:
        return []
    if form := _explain_form(subject, case, inputs):
        return form
    found = _explain_results(subject, case, inputs)
    if any(one.cause == "not-clipped" for one in found):
        return [Explanation.of("not-written", "unclipped")]
    return _explain_small_difference(subject, verdict, [(case, inputs)]) if found == [RIGHT] else found


#: Results in another order may seem to have one of these causes.
MISPLACED = frozenset({"shape-changed", "dtype-changed", "none-changed", "excluded-changed"})


def _explain_results(
    subject: _Subject,
    case: Case,
    results: Sequence[Array | None],
    barred: Collection[str] = (),
) -> list[Explanation]:
    """Return each explanation of the results of one call, or `[RIGHT]` if they are right."""
    if has_dense_rows(case, results):
        return _list(explain_rows(case, results, subject.formulas))
    found = _explain_in_order(subject, case, results, barred)
    if found != [RIGHT] and "mesh" in case.options and _are_right(_multiply_thresholds(case), results):
        return [Explanation.of("addends-clipped"), *found]
    if found != [RIGHT] and (order := _explain_order(case, results)) is not None:
        return [order, *found]
    return found


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


def _explain_in_order(
    subject: _Subject, case: Case, results: Sequence[Array | None], barred: Collection[str]
) -> list[Explanation]:
    """Explain the results, if each belongs to the gradient at the same place."""
    if form := _explain_form(subject, case, results):
        return form
    if (excluded := explain_excluded(case, results)) is not None:
        return [excluded]
    if not OPERATIONS[case.operation].is_by_norm:
        return [RIGHT] if is_right_value(case, results) else list_values(case, results, subject.list_barred(case))
    if OPERATIONS[case.operation].sums_examples:
        results = _share_nan(case, results)
    seen = Seen(case, results)
    is_small = not any(group.is_long for group in seen.groups)
    if case.theme not in LIMITS and (found := _explain_by_likely(subject, seen, barred)):
        if is_small:
            subject.small[id(case)] = seen
        return found
    each = [found for group in seen.groups if (found := _explain_group(subject, group, barred)) != [RIGHT]]
    if not each:
        return [RIGHT]
    if is_small:
        subject.small[id(case)] = seen
    laws = [law.explain() for law in subject.list_laws(case) if law.reproduces(seen)]
    if OPERATIONS[case.operation].divides_gradients and _has_other_units(case, results):
        laws.append(Explanation.of("other-units"))
    if is_clipped_by_rows(seen):
        laws.append(Explanation.of("norm-of-rows"))
    common = _intersect(each)
    special = [one for one in common if one.cause in SPECIAL]
    others = [one for one in common if one not in special]
    # At the limits of the range, a step that leaves it is more likely than a law that is wrong everywhere. A single
    # gradient that is left out of the norm is rather not clipped.
    late = laws if case.theme in LIMITS else [one for one in laws if one.cause == "gradients-left-out"]
    if case.theme not in LIMITS and len(seen.tensors) > 1:
        late = []
    found = [*special, *(law for law in laws if law not in late), *others, *late]
    return found or _mix(subject, case, each)


def _explain_by_likely(subject: _Subject, seen: Seen, barred: Collection[str]) -> list[Explanation]:
    """Return an explanation of a call by a likely cause if its formula or its law gives the results."""
    likely = subject.likely.difference(barred)
    if not likely:
        return []
    for formula in subject.formulas:
        found = explain_by_formula(formula)
        if found.cause in likely and all(is_plain(group) or follows_formula(group, formula) for group in seen.groups):
            return [] if all(map(is_plain, seen.groups)) else [found]
    laws = (law for law in subject.list_laws(seen.case) if law.cause in likely)
    return [law.explain() for law in laws if law.reproduces(seen)]


def _intersect(each: Sequence[Sequence[Explanation]]) -> list[Explanation]:
    """Return the explanations that all parts of an answer share."""
    found = []
    for one in each[0] if each else ():
        same = [next((other for other in others if make_key(other) == make_key(one)), None) for others in each]
        if None not in same and (united := unite(same)) is not None:
            found.append(united)
    return found


def _mix(subject: _Subject, case: Case, each: Sequence[Sequence[Explanation]]) -> list[Explanation]:
    """Explain an answer whose gradients have different causes, of which the entry point has each."""
    rest = {found[0] if found else None for found in each}
    # Leave out the cause "nonfinite-silent" if there is another one, too.
    silent = {one for one in rest if one is not None and one.cause == "nonfinite-silent"}
    rest = (rest - silent) if len(rest) > 1 else rest
    if OPERATIONS[case.operation].sums_examples and any(one is not None and _spoils_sum(subject, one) for one in rest):
        # The results are sums over the examples, so NaN in one of them is in all.
        rest = {one for one in rest if one is None or one.cause != "gradients-nan"}
    return _list(unite(rest) or _combine_suspected(subject, rest))


def _spoils_sum(subject: _Subject, found: Explanation) -> bool:
    """Return whether the cause of one example makes the sum of all examples NaN.

    `_share_nan` gives NaN to examples of zeros. So their cause counts only if other cells show it, too.
    """
    return ("effect", "nan") in found.parameters or (found.cause in ZEROS_NAN and found.cause in subject.shown)


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


def _explain_form(subject: _Subject, case: Case, results: Sequence[Array | None]) -> list[Explanation]:
    """Explain results of a wrong form. `effect` names the difference if the numbers themselves are right.

    If the numbers are wrong, too, and the entry point is known to return such a form, the explanation has both causes.
    """
    form = explain_form(case, results)
    if form is None:
        return []
    if form.cause in MISPLACED and (order := _explain_order(case, results)) is not None:
        return [order, form]
    if (restored := restore_form(case, results)) is None:
        return [form]
    effect, right = restored
    found = Explanation.of(form.cause, form.severity, **dict(form.parameters), effect=effect)
    numbers = _explain_results(subject, case, right)
    if RIGHT in numbers or Explanation.of("long-sum") in numbers:
        return [found]
    if not numbers or form.cause not in subject.suspected:
        return [form]
    return [replace(one, others=(*one.others, found)) for one in numbers]


def _explain_group(subject: _Subject, group: Group, barred: Collection[str] = ()) -> list[Explanation]:
    """Return each explanation of the results of gradients that share a norm, or `[RIGHT]`."""
    if group.threshold >= 0 and (is_plain(group) if group.total is None else is_right_for_nonfinite(group)):
        return [RIGHT]
    if (found := explain_special(group, [PLAIN, *subject.formulas])) is not None:
        return [found]
    if group.total is not None or not group.threshold >= 0:
        return []
    if counts_nonfinite_excluded(group):
        return [Explanation.of("excluded-counted")]
    formulas = [PLAIN, *subject.formulas]
    every = [
        *(explain_by_formula(formula) for formula in subject.formulas if follows_formula(group, formula)),
        *_explain_beside_empty(subject, group),
        *list_ranges(group, formulas, subject.list_barred(group.seen.case)),
        *list_roundings(group, formulas, is_narrow="narrower-arithmetic" in subject.suspected | subject.shown),
        *_list(_explain_behaviour(group)),
    ]
    return [one for one in dict.fromkeys(every) if one.cause not in barred]


def _explain_beside_empty(subject: _Subject, group: Group) -> list[Explanation]:
    """Explain results by old memory, which may make the norm infinite or NaN, and the gradients zero or unchanged."""
    if BESIDE_EMPTY.cause not in subject.suspected or (factor := BESIDE_EMPTY.compute_factor(group)) is None:
        return []
    return [BESIDE_EMPTY.explain()] if group.is_scaled_by(factor * group.seen.rate) else []


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
