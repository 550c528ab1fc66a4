"""Name the causes of wrong cells, by the models that reproduce their whole answers.

Often several causes explain a cell. The fewest causes that explain the cells of an entry point are named. An answer
that no model reproduces stays unexplained.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from itertools import islice

import numpy as np

from gradclip_reports.statuses import Status
from gradclip_reports.values import group_by

from ..oracle.question import count_elements
from .cells import explain
from .facts import MANY
from .fits import FITS
from .laws import LAWS, SHOWN_BY_ONE
from .model import Basis, Explanation, Judged, Key
from .ranges import LIMITS
from .results import LONG_SUM
from .traits import BREAKING, Traits, learn, suspect

#: At most so many short calls of each theme show which cause is likely.
FEW = 3  # measured: 2 and 6 name the same causes

#: A cause is likely if it explains one in so many of these calls.
LIKELY = 4  # measured: 2 and 8 name the same causes

#: A gradient takes as long as this many elements.
ELEMENTS_OF_A_GRADIENT = 32  # measured: 16 and 64 name the same causes

#: The causes of all laws that one answer cannot show, because it may agree with them by chance.
ALL_LAWS = frozenset([*(law.cause for law in LAWS), *(fit.cause for fit in FITS)]) - SHOWN_BY_ONE

#: A cause comes before a symptom that explains at most this many times as many cells. Squares that overflow explain 42
#: of 43 cells of zeros. In a function that never clips, a cause explains 118 of 181 cells by chance.
ALMOST = Fraction(10, 9)


def explain_cell(
    judged: Judged, suspects: Collection[Explanation] = (), barred: Collection[str] = ()
) -> Explanation | None:
    """Return the explanation of one cell alone, or None if no model reproduces it.

    `suspects` holds the causes that the entry point is known to have. Their formulas need not be fitted from other
    cells, and they are preferred if several models reproduce the answer. `barred` holds causes that are left out.
    """
    traits = suspect(judged, suspects, barred)
    every = explain(traits, judged)
    known = [one for one in every if one.cause in traits.suspected]
    return next(iter([*known, *(one for one in every if one.cause not in ALL_LAWS)]), None)


def explain_all(
    cells: Sequence[Judged],
    asked: Collection[tuple[str, str, str]] = frozenset(),
    ask_again: Callable[[Judged], Judged] = lambda judged: judged,
) -> list[Explanation | None]:
    """Return the explanation of each cell, or None for a cell that no model reproduces.

    `asked` holds a tuple of entry point, rule (without its operation) and dtype for each rule that was tested. If an
    entry point keeps a rule in a dtype, the cause that belongs to the rule cannot apply there. `ask_again` returns a
    cell with its answers, if these were too large to be kept.
    """
    by_entry_point = group_by(lambda place: cells[place].context.subject.name, range(len(cells)))
    found: list[Explanation | None] = [None] * len(cells)
    for name, places in by_entry_point.items():
        mine = [cells[place] for place in places]
        traits = learn(name, mine, asked)
        options = _list_options_of_all(traits, mine, ask_again)
        for place, explanation in zip(places, choose(options), strict=True):
            found[place] = explanation
    return found


def _list_options_of_all(
    traits: Traits, cells: Sequence[Judged], ask_again: Callable[[Judged], Judged]
) -> list[Options]:
    """Return the explanations of the cells of one entry point, those of a few short calls of each theme first.

    To compare a short call with all models takes 10 ms, a long one up to a second, and a wrong function may have
    hundreds of wrong cells. So the few show the likely causes, with which all other cells are compared first. A cell
    of the few belongs to the others unless each likely cause explains it: what the few show may explain it, too.
    """
    few = _take_few_of_each_theme(cells)
    options = {place: _list_options(traits, cells[place]) for place in few}
    traits.shown = frozenset(one.cause for cell in options.values() for one in cell.explanations)
    times = Counter(one.cause for one in choose(list(options.values())) if one is not None)
    traits.likely = frozenset(cause for cause, count in times.items() if count > len(few) / LIKELY)
    options = {
        place: cell
        for place, cell in options.items()
        if cell.explanations and traits.likely <= {one.cause for one in cell.explanations}
    }
    # Large cells come first, before the facts about the others take memory.
    rest = set(range(len(cells))).difference(options)
    for place in sorted(rest, key=lambda place: (cells[place].digest is None, place)):
        options[place] = _list_options(traits, cells[place], ask_again)
    return [options[place] for place in range(len(cells))]


def _take_few_of_each_theme(cells: Sequence[Judged]) -> list[int]:
    """Return the places of short calls, evenly spaced over those of their theme."""
    themes: dict[str, list[int]] = {}
    for place, judged in enumerate(cells):
        case = judged.context.case
        length = count_elements(case) + ELEMENTS_OF_A_GRADIENT * len(case.gradients)
        if judged.digest is None and length <= MANY:
            themes.setdefault(case.theme, []).append(place)
    return [place for places in themes.values() for place in places[:: math.ceil(len(places) / FEW)]]


def _list_options(
    traits: Traits, judged: Judged, ask_again: Callable[[Judged], Judged] = lambda judged: judged
) -> Options:
    was_answered = bool(judged.answers) or judged.digest is not None
    counts = judged.explanation is not None or (was_answered and judged.verdict.status in BREAKING)
    if judged.digest is None or judged.explanation is not None or judged.verdict.formula is not None:
        found = explain(traits, judged)
    elif _is_like_other_sums(traits, judged):
        found = [LONG_SUM]
    else:
        whole = ask_again(judged)
        found = explain(traits, whole)
        # The cell is large, so its gradients are not kept.
        traits.small.pop(id(whole.context.case), None)
    return Options(found, partial(_refutes, traits, judged), counts, judged.is_known_cause)


def _is_like_other_sums(traits: Traits, judged: Judged) -> bool:
    """Return whether a long call shows only what short calls show: results that are right, but not as good as can be.

    They are within the error bound of a sum. To compare them with other formulas may take a second.
    """
    verdict, is_shown = judged.verdict, LONG_SUM.cause in traits.shown
    is_accurate = verdict.status == Status.QUALITY and verdict.breaks is None
    return is_shown and is_accurate and judged.context.case.theme not in LIMITS


def _refutes(traits: Traits, judged: Judged, explanation: Explanation) -> bool:
    """Return whether the law of a cause predicts a wrong answer to an ordinary call. The observed answer is another."""
    case = judged.context.case
    seen = traits.small.get(id(case))
    # The error bound of a long sum explains some answers, which its laws say nothing about.
    if seen is None or case.theme in LIMITS or explanation.cause == "long-sum":
        return False
    if explanation.cause == "norm-of-rows":
        return any(len(tensor.given.shape) > 1 for tensor in seen.tensors.values())
    with np.errstate(all="ignore"):
        return any(law.speaks_of(seen) for law in traits.list_laws(seen) if law.explain() == explanation)


@dataclass
class Options:
    """The explanations of one cell: each cause whose model reproduces the answer. The most specific one comes first."""

    explanations: list[Explanation]
    #: Return whether the model of a cause predicts another wrong answer, although nothing in the call leaves the range.
    refutes: Callable[[Explanation], bool] = lambda _: False
    #: Whether the cell breaks a rule.
    counts: bool = True
    #: Whether a known failure names the cause, so that no other cell casts doubt on it.
    is_known: bool = False

    @property
    def keys(self) -> dict[Key, Explanation]:
        """The explanations by what they share with those of other cells."""
        found: dict[Key, Explanation] = {}
        for one in self.explanations:
            found.setdefault(one.key, one)
        return found


def choose(cells: Sequence[Options]) -> list[Explanation | None]:
    """Return the explanation of each cell. The causes that explain most cells are named, as in a greedy set cover.

    The model of a cause answers for one call, and only all calls together show whether the entry point has the cause.
    So this is asked before any cause is named, and no name is taken back. A cause that a known failure names stays.
    """
    every = [cell.keys for cell in cells]
    credible = _list_credible(cells, every)
    return _cover(
        [
            keys if cell.is_known else {key: one for key, one in keys.items() if key in credible}
            for cell, keys in zip(cells, every, strict=True)
        ]
    )


def _list_credible(cells: Sequence[Options], every: Sequence[Mapping[Key, Explanation]]) -> set[Key]:
    """Return the causes that an entry point may have.

    A cause must explain more cells than those in which its model predicts another wrong answer. If no answer shows it
    by itself, it must also explain more cells than nothing explains: if many answers are unexplained, the main defect
    is unknown, and a model that takes the rest of the function for right proves nothing.
    """
    examples = {key: one for keys in every for key, one in keys.items()}
    times = Counter(key for keys in every for key in keys)
    bases = {basis: {key for keys in every for key, one in keys.items() if one.basis is basis} for basis in Basis}
    shown, predicted = bases[Basis.SHOWN], bases[Basis.PREDICTED] - bases[Basis.SHOWN]
    found = {key for key, one in examples.items() if not _is_refuted(cells, every, one, times[key])}
    lost = _count_lost(cells, every, found)
    found = {key for key in found if key in shown or times[key] > lost}
    # What only a doubtful law explains is unexplained, too. Symptoms stay, since the answers show them.
    while doubtful := {key for key in found & predicted if times[key] <= _count_lost(cells, every, found)}:
        found -= doubtful
    return found


def _count_lost(cells: Sequence[Options], every: Sequence[Mapping[Key, Explanation]], found: set[Key]) -> int:
    """Return the number of wrong cells that none of these causes explains."""
    pairs = zip(cells, every, strict=True)
    return sum(cell.counts and (found.isdisjoint(keys) if not cell.is_known else not keys) for cell, keys in pairs)


def _is_refuted(
    cells: Sequence[Options], every: Sequence[Mapping[Key, Explanation]], one: Explanation, times: int
) -> bool:
    """Return whether a cause that explains this many cells is refuted by as many others."""
    against = (cell for cell, keys in zip(cells, every, strict=True) if one.key not in keys and cell.refutes(one))
    # Models take time, so do not ask more than needed.
    return sum(1 for _ in islice(against, times)) == times


def _cover(every: Sequence[Mapping[Key, Explanation]]) -> list[Explanation | None]:
    """Return the explanation of each cell, by few keys. Of two that explain as many cells, the more specific one.

    A symptom says less than a cause, and the cells of any cause with the same effect show it, too. So a cause comes
    first that explains almost as many cells.
    """
    found: list[Explanation | None] = [None] * len(every)
    while any(keys and one is None for keys, one in zip(every, found, strict=True)):
        times: Counter[Key] = Counter()
        ranks: Counter[Key] = Counter()
        described: set[Key] = set()
        for keys, one in zip(every, found, strict=True):
            if one is None:
                times.update(list(keys))
                ranks.update({key: rank for rank, key in enumerate(keys)})
                described |= {key for key, one in keys.items() if one.basis is Basis.DESCRIBED}
        best = min(times, key=lambda key: (-times[key] * (1 if key in described else ALMOST), ranks[key], str(key)))
        found = [keys.get(best) if one is None else one for keys, one in zip(every, found, strict=True)]
    return found
