"""Find out what the wrong cells of one entry point have in common: its formulas, fitted numbers, and impossible causes.

A single cell is explained with what is known about its entry point, such as the causes of known failures.
"""

from __future__ import annotations

import sys
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np

from gradclip_adapters.operations import OPERATIONS
from gradclip_reports.statuses import DIFFERING, Status

from ..cases.patterns import matches
from ..judge.calls import Calls
from ..oracle.formats import FORMATS
from ..oracle.formula import PLAIN, Formula
from ..oracle.question import count_elements
from . import fits, ranges
from .facts import MANY, Seen
from .fits import FITS, FORMULA_CAUSES, fit_formula
from .forms import explain_form
from .laws import ABOVE, LAWS, SHOWN_BY_ONE, Law, make_signed
from .model import Explanation, Judged

#: The statuses of cells that are explained.
EXPLAINED = DIFFERING - {Status.ERROR, Status.NOT_RUN}

#: The statuses of cells that break a rule. Documented answers differ for another reason.
BREAKING = EXPLAINED - {Status.DOCUMENTED}

#: Numbers are fitted to this many cells, evenly spaced: each number needs two different norms, and a case has few.
FITTING = 200  # measured: 100 and 400 name the same causes

#: For some causes, the rule that the cause breaks. If an entry point keeps the rule, the cause cannot apply.
BROKEN = {
    **fits.BREAKS,
    **ranges.BREAKS,
    **dict.fromkeys((*FORMULA_CAUSES.values(), "eps-under-root"), ABOVE),
}

#: A function with one of these causes keeps the rule. If an entry point breaks the rule, the cause cannot apply.
KEPT = {**fits.KEEPS, "memory-reused": ABOVE}

#: An epsilon of fewer ulp of 1 does not show in ordinary calls above the threshold.
HIDDEN = 1024  # measured: 512 and 2048 name the same causes


@dataclass
class Traits:
    """The knowledge about one entry point."""

    #: The causes that cannot apply in each dtype, because the entry point keeps the rules that they break.
    barred: dict[str, set[str]] = field(default_factory=dict)
    #: The formulas that are declared or known, other than the neutral rule.
    declared: list[Formula] = field(default_factory=list)
    #: The formulas with a fitted number.
    fitted_formulas: Sequence[Formula] = ()
    #: The laws with a fitted number.
    fitted: Sequence[Law] = ()
    #: The causes that the entry point is known to have.
    suspected: frozenset[str] = frozenset()
    #: The causes of whole answers, which may explain a part of others.
    shown: frozenset[str] = frozenset()
    #: The causes that answers are compared with before all others: those that are known, or those of many short calls.
    likely: frozenset[str] = frozenset()
    #: The causes of the laws that calls are compared with, or None for all.
    tried: frozenset[str] | None = None
    #: Small calls, in which laws may be refuted, by the number of the case.
    small: dict[int, Seen] = field(default_factory=dict)

    def list_formulas(self, seen: Seen) -> list[Formula]:
        """Return the formulas that may explain a call."""
        barred = self.list_barred(seen)
        fitted = self.fitted_formulas
        return [
            *self.declared,
            *(one for one in fitted if FORMULA_CAUSES[one.kind] not in barred or _is_hidden(one.eps, seen)),
        ]

    def list_laws(self, seen: Seen) -> list[Law]:
        """Return the laws that may explain a call."""
        added = [formula.eps for formula in self.list_formulas(seen) if formula.kind == "coefficient"]
        # MindSpore rounds the epsilon to float32, too.
        signed = [make_signed(number) for eps in added for number in (eps, float(np.float32(eps)))]
        barred = self.list_barred(seen)
        # A norm of 1 instead of 0 shows a replaced threshold sooner than a norm that is always 1.
        fitted = sorted(self.fitted, key=lambda law: law.cause != "threshold-replaced")
        every = (*fitted[:1], *LAWS, *fitted[1:], *signed)
        return [
            law
            for law in every
            if (self.tried is None or law.cause in self.tried)
            and (law.cause not in barred or _is_hidden(dict(law.parameters).get("eps"), seen))
        ]

    def list_barred(self, seen: Seen) -> set[str]:
        """Return the causes that cannot explain a call. Ordinary calls ask for one norm, the Euclidean one."""
        case = seen.case
        barred = set() if case.options.get("layers") else self.barred.get(case.dtype, set())
        if "+" in case.dtype and not case.options.get("layers"):
            # A mistake in all calls above the threshold would show in lists of each dtype, too.
            each = (self.barred.get(dtype, set()) for dtype in case.dtype.split("+"))
            barred = barred.union(cause for cause in set.intersection(*each) if BROKEN.get(cause) == ABOVE)
        if case.norm_type != 2:
            barred = {cause for cause in barred if BROKEN.get(cause) != ABOVE}
        return barred | ranges.LOST_NORMS if seen.has_right_norm else barred

    def remember(self, seen: Seen) -> None:
        """Keep a small call, so that laws which predict another wrong answer to it can be refuted."""
        if not seen.is_long:
            self.small[id(seen.case)] = seen


def _is_hidden(eps: float | None, seen: Seen) -> bool:
    """Return whether a small epsilon may be in the formula, although calls above the threshold are right."""
    form = FORMATS.get(seen.case.dtype)
    return eps is not None and (form is None or eps * 2.0**form.precision < HIDDEN)


def suspect(judged: Judged, suspects: Collection[Explanation], barred: Collection[str]) -> Traits:
    """Return the knowledge about an entry point of which only one cell and its known failures are known."""
    causes = frozenset(one.cause for one in suspects)
    traits = Traits(
        barred={judged.context.case.dtype: set(barred)},
        declared=_list_declared([judged]),
        suspected=causes,
        likely=causes,
        # A law that nothing else shows may agree with one answer by chance.
        tried=causes | SHOWN_BY_ONE,
    )
    kinds = {cause: kind for kind, cause in FORMULA_CAUSES.items()}
    for one in suspects:
        if one.cause in kinds and (eps := _get_number(one, "eps")) is not None:
            formula = Formula(kinds[one.cause], eps)
            traits.declared += [formula] if formula not in traits.declared else []
        for fit in FITS:
            if fit.cause == one.cause and (number := _get_number(one, fit.parameter)) is not None:
                traits.fitted = [*traits.fitted, fit.make(number)]
    return traits


def _get_number(one: Explanation, name: str) -> float | None:
    """Return a parameter, or None where an entry gives a pattern, or no number above zero."""
    number = dict(one.parameters).get(name)
    is_number = isinstance(number, int | float) and 0 < number <= sys.float_info.max
    return float(number) if is_number else None  # type: ignore[arg-type]


def learn(name: str, cells: Sequence[Judged], asked: Collection[tuple[str, str, str]]) -> Traits:
    """Return what the wrong cells of an entry point show. `asked` holds the rules that were tested."""
    traits = Traits(barred=_list_barred(name, cells, asked))
    if OPERATIONS[cells[0].context.subject.operation].is_by_norm:
        with np.errstate(all="ignore"):
            _fit(traits, cells)
    return traits


def _list_barred(name: str, cells: Iterable[Judged], asked: Collection[tuple[str, str, str]]) -> dict[str, set[str]]:
    """Return, for each dtype, the causes that cannot apply, because of a rule that the entry point keeps or breaks."""
    cases = [judged.context.case for judged in cells if judged.verdict.status in BREAKING]
    broken = {(case.theme, case.dtype) for case in cases}
    barred: dict[str, set[str]] = {}
    for entry_point, rule, dtype in asked:
        if entry_point == name:
            rules = KEPT if (rule, dtype) in broken else BROKEN
            barred.setdefault(dtype, set()).update(cause for cause, own in rules.items() if own == rule)
    return barred


def _list_declared(cells: Iterable[Judged]) -> list[Formula]:
    """Return the formulas that claims or adapters give for these cells, except the neutral rule."""
    found: dict[Formula, None] = {}
    for judged in cells:
        entry_point = judged.context.subject
        # The formula of a claim holds for the whole function, whatever rules the claim is about.
        found |= dict.fromkeys(
            claim.formula
            for claim in judged.context.claims
            if claim.formula is not None and matches(claim.subject, entry_point.name)
        )
        if entry_point.formula is not None:
            found[Formula.of(entry_point.formula)] = None
    return [formula for formula in found if formula != PLAIN]


def _fit(traits: Traits, cells: Sequence[Judged]) -> None:
    """Find the numbers of formulas and laws that several answers show. Whether they are named is decided later."""
    every = []
    # The exact elements of long calls would take much memory.
    short = [one for one in cells if count_elements(one.context.case) <= MANY]
    for judged in short[:: max(1, len(short) // FITTING)]:
        replies = Calls(judged.context, judged.answers).replies
        if len(replies) == len(judged.answers) == 1 and judged.verdict.status in EXPLAINED:
            seen = Seen(judged.context.case, replies[0].gradients)
            if explain_form(seen) is None:
                every.append(seen)
    traits.declared = _list_declared(cells)
    traits.fitted_formulas = [one for one in fit_formula(every) if one not in traits.declared]
    traits.fitted = [fit.make(number) for fit in FITS if (number := fit.find(every)) is not None]
