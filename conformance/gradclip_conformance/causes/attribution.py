"""Name the causes of wrong cells, by the models that reproduce their whole answers.

Often several causes explain a cell. The fewest causes that explain the cells of an entry point are named. An answer
that no model reproduces stays unexplained.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from itertools import islice

import numpy as np

from gradclip_reports.statuses import Status
from gradclip_reports.values import group_by
from gradclip_spec.rules.causes import load_cause_groups

from ..oracle.question import count_elements
from .cells import explain
from .facts import MANY
from .fits import FITS, FORMULA_CAUSES
from .laws import BESIDE_EMPTY, LAWS, SHOWN_BY_ONE
from .model import Explanation, Judged, Key
from .results import LONG_SUM, SYMPTOMS, ZEROS_NAN
from .traits import BREAKING, LIMITS, Traits, learn, suspect

#: At most so many short calls of each theme show which cause is likely.
FEW = 3

#: A cause is likely if it explains one in so many of these calls. A gradient takes as long as this many elements.
LIKELY, ELEMENTS_OF_A_GRADIENT = 4, 32

#: The causes of all laws that one answer cannot show, because it may agree with them by chance.
ALL_LAWS = frozenset([*(law.cause for law in LAWS), *(fit.cause for fit in FITS)]) - SHOWN_BY_ONE

#: If the main defect of a function is unknown, these causes may explain a few of its answers by chance. Many of their
#: models assume that the function is right in ordinary calls.
DOUBTFUL = (
    ALL_LAWS
    | {"norm-of-rows", "other-units", "memory-reused", "value-bounds-rounded", BESIDE_EMPTY.cause}
    | {cause for group in load_cause_groups().values() for cause in group.causes if group.id == "arithmetic-limits"}
    | {"subnormals-flushed", "narrower-arithmetic", *SYMPTOMS}
    | {"value-one-sided", "value-bounds-mirrored", "value-bound-zero", "value-outside-zeroed", "value-scaled"}
    | {"not-exact-below", "elements-moved"}
    | {*FORMULA_CAUSES.values()}
)

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
        for place, explanation in zip(places, choose(options, DOUBTFUL), strict=True):
            found[place] = explanation
    return found


def _list_options_of_all(
    traits: Traits, cells: Sequence[Judged], ask_again: Callable[[Judged], Judged]
) -> list[Options]:
    """Return the explanations of the cells of one entry point, those of a few short calls of each theme first.

    To compare a short call with all models takes 10 ms, a long one up to a second, and a wrong function may have
    hundreds of wrong cells. So the few show the likely cause, with which all other cells are compared first.
    """
    few = _take_few_of_each_theme(cells)
    options = {place: _list_options(traits, cells[place]) for place in few}
    traits.shown = frozenset(one.cause for cell in options.values() for one in cell.explanations)
    if traits.shown & ZEROS_NAN:
        # These causes also explain parts of answers that show little on their own.
        options = {place: _list_options(traits, cells[place]) for place in few}
    times = Counter(one.cause for one in choose(list(options.values()), DOUBTFUL) if one is not None)
    traits.likely = frozenset(cause for cause, count in times.items() if count > len(few) / LIKELY)
    if "narrower-arithmetic" in traits.likely:
        # It also explains norms that are lost, which show little on their own.
        options = {}
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


def choose(cells: Sequence[Options], doubtful: Collection[str] = ()) -> list[Explanation | None]:
    """Return the explanation of each cell. The causes that explain most cells come first, as in a greedy set cover.

    A cause must explain more cells than those in which its model predicts another wrong answer. A doubtful cause must
    also explain more cells than nothing explains. If many answers are unexplained, the main defect is unknown, and a
    model that takes the rest of the function for right proves nothing. A cause that a known failure names stays.
    """
    every = [cell.keys for cell in cells]
    examples = {key: one for keys in every for key, one in keys.items()}
    times = Counter(key for keys in every for key in keys)
    for key, one in examples.items():
        against = (cell for cell, keys in zip(cells, every, strict=True) if key not in keys and cell.refutes(one))
        # Models take time, so do not ask more than needed.
        if sum(1 for _ in islice(against, times[key])) == times[key]:
            _drop(cells, every, key)
    lost = sum(not keys and cell.counts for cell, keys in zip(cells, every, strict=True))
    for key in examples:
        if key[0] in doubtful and times[key] <= lost:
            _drop(cells, every, key)
    return _cover(every)


def _drop(cells: Sequence[Options], every: Sequence[dict[Key, Explanation]], key: Key) -> None:
    for cell, keys in zip(cells, every, strict=True):
        if not cell.is_known:
            keys.pop(key, None)


def _cover(every: Sequence[dict[Key, Explanation]]) -> list[Explanation | None]:
    """Return the explanation of each cell, by few keys. Of two that explain as many cells, the more specific one.

    A symptom says less than a cause, and the cells of any cause with the same effect show it, too. So a cause comes
    first that explains almost as many cells.
    """
    found: list[Explanation | None] = [None] * len(every)
    while any(keys and one is None for keys, one in zip(every, found, strict=True)):
        times: Counter[Key] = Counter()
        ranks: Counter[Key] = Counter()
        for keys, one in zip(every, found, strict=True):
            if one is None:
                times.update(list(keys))
                ranks.update({key: rank for rank, key in enumerate(keys)})
        best = min(times, key=lambda key: (-times[key] * (1 if key[0] in SYMPTOMS else ALMOST), ranks[key], str(key)))
        found = [keys.get(best) if one is None else one for keys, one in zip(every, found, strict=True)]
    return found
