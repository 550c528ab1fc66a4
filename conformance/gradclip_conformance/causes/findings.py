"""Group the cells of a run by their causes. A few findings replace thousands of cells."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Protocol

import numpy as np

from gradclip_reports.records import Cell, Finding
from gradclip_reports.statuses import SPOILING, STATUSES, UNEXPLAINED, UNJUDGED, Status, rank_severity
from gradclip_reports.values import group_by
from gradclip_spec.rules.causes import Cause, CauseGroup, load_cause_groups, load_causes

from ..oracle.formats import read_float64_values
from .model import Evidence, Explanation, Judged

__all__ = ["UNEXPLAINED", "Known", "find_findings", "find_origin", "keep_evidence", "list_asked_rules"]


#: A cell is large if its gradients have more bytes than this.
LARGE = 1 << 18

#: A finding leaves out a parameter that has more values than this.
TOLD = 4


class Known(Protocol):
    """A known failure. The cells that one cause and one known failure explain form one finding."""

    @property
    def reason(self) -> str:
        """The framework's behaviour and its cause, in a sentence. It may be empty."""

    @property
    def url(self) -> str:
        """The upstream thread."""


#: A function that returns the known failure for a cell and its explanation.
FindKnown = Callable[[Cell, Explanation | None], Known | None]


def list_asked_rules(cells: Iterable[Cell]) -> set[tuple[str, str, str]]:
    """Return a tuple of entry point, rule (without its operation) and dtype for each cell that was judged."""
    return {(cell.subject, cell.rule.partition(".")[2], cell.dtype) for cell in cells if cell.status not in UNJUDGED}


def keep_evidence(evidence: list[Evidence], judged: Judged, cell: Cell) -> None:
    """Add a wrong cell to the evidence, with its answers unless they are large.

    The models of one cell may need the answers of other cells, so the cells are explained at the end of a run. Then
    the calls are made again whose answers were dropped.
    """
    case = judged.context.case
    size = sum(len(gradient.array.data) for gradient in case.gradients if gradient.array is not None)
    if size > LARGE:
        bare = replace(judged.context, case=replace(case, gradients=()))
        judged = replace(judged, context=bare, answers=(), digest=hash(tuple(judged.answers)))
    evidence.append(Evidence(judged, cell, size))


def find_findings(
    evidence: Sequence[Evidence],
    explanations: Sequence[Explanation | None],
    find_known: FindKnown | None = None,
) -> list[Finding]:
    """Return the findings that explain these cells. Sort them: first those that fail the run, then by severity.

    Findings of one cause, or of causes in one group, become the parts of one finding. Parts that fail the run and parts
    that do not form separate findings. Unexplained answers form one finding, with a part for each rule.
    """
    pairs = zip(evidence, explanations, strict=True)
    groups = group_by(lambda pair: _make_key(pair[0].cell, pair[1], find_known), pairs)
    singles = [_make_finding(key[0], key[2], group) for key, group in groups.items()]
    origins = group_by(lambda single: (find_origin(single.cause), single.spoils), singles)
    return sorted((_combine(sorted(parts, key=_rank)) for parts in origins.values()), key=_rank)


def _rank(one: Finding) -> tuple[bool, int, int]:
    return not one.spoils, rank_severity(one.severity), -one.count


def find_origin(cause: str) -> str:
    """Return the id of the group of a cause, or of the cause itself if it is in no group."""
    return next((group.id for group in load_cause_groups().values() if cause in group.causes), cause)


def _combine(parts: Sequence[Finding]) -> Finding:
    """Return one finding whose parts are the given findings, worst first."""
    worst = parts[0]
    if len(parts) == 1:
        return worst
    causes = {part.cause for part in parts}
    told: Cause | CauseGroup = (
        _find_cause(worst.cause) if len(causes) == 1 else load_cause_groups()[find_origin(worst.cause)]
    )
    cells: dict[str, list[str]] = {}
    for part in parts:
        for entry_point, cases in part.cells.items():
            cells.setdefault(entry_point, []).extend(cases)
    common = set.intersection(*(set(part.parameters.items()) for part in parts))
    return Finding(
        cause=told.id,
        title=told.title,
        question=told.question,
        severity=worst.severity,
        why=told.why,
        parameters=dict(sorted(common)),
        cells=cells,
        rules=dict(sum((Counter(part.rules) for part in parts), Counter[str]())),
        statuses=_sort_counts(sum((Counter(part.statuses) for part in parts), Counter[str]())),
        example=worst.example,
        parts=tuple(parts),
    )


def _make_key(cell: Cell, found: Explanation | None, find_known: FindKnown | None) -> tuple[Any, ...]:
    """Return what the cells of one finding share: the cause, and its parameters or the known failure."""
    known = find_known(cell, found) if find_known is not None else None
    if found is None:
        return UNEXPLAINED, cell.rule, known
    if known is not None:
        return found.cause, (), known
    return *found.key, None


def _make_finding(name: str, known: Known | None, group: Sequence[tuple[Evidence, Explanation | None]]) -> Finding:
    cause, parameters = _find_cause(name), _list_parameters(group)
    cells: dict[str, list[str]] = {}
    for one, _ in group:
        cells.setdefault(one.cell.subject, []).append(one.cell.case)
    severities = [(found and found.severity) or cause.severity for _, found in group]
    worst = min(severities, key=rank_severity)
    ranked = [_rank_example(one, is_worst=mine == worst) for (one, _), mine in zip(group, severities, strict=True)]
    example = group[min(range(len(group)), key=ranked.__getitem__)][0].cell
    every = [one.cell for one, _ in group]
    documented = next((cell for cell in every if cell.quote), None)
    known_cell = next((cell for cell in every if cell.status == Status.KNOWN), None)
    reason = (known.reason if known else known_cell.detail.partition("Known: ")[2]) if known_cell else ""
    return Finding(
        cause=cause.id,
        title=cause.title,
        question=cause.question,
        severity=worst,
        why=cause.why,
        parameters=parameters,
        cells=cells,
        rules=dict(Counter(cell.rule for cell in every)),
        statuses=_sort_counts(Counter(cell.status for cell in every)),
        example={
            "subject": example.subject,
            "case": example.case,
            "detail": example.detail,
            "input": example.input,
            "expected": example.expected,
            "observed": example.observed,
        },
        quote=documented.quote if documented else None,
        reason=reason or None,
        url=known.url if known and known_cell else (documented or known_cell or example).url,
    )


def _list_parameters(group: Sequence[tuple[Evidence, Explanation | None]]) -> Mapping[str, Any]:
    """Return the parameters of a finding. Join a few values by " | ", and leave out parameters with many values."""
    if group[0][1] is None:
        return {"rule": group[0][0].cell.rule}
    values: dict[str, dict[Any, None]] = {}
    for _, found in group:
        for name, value in found.parameters if found is not None else ():
            values.setdefault(name, {})[value] = None
    return {
        name: next(iter(every)) if len(every) == 1 else " | ".join(sorted(map(str, every)))
        for name, every in values.items()
        if len(every) <= TOLD
    }


def _sort_counts(counts: Counter[str]) -> dict[str, int]:
    return {name: counts[name] for name in STATUSES if counts[name]}


def _find_cause(name: str) -> Cause:
    if name == UNEXPLAINED:
        title = "answers that no known cause explains"
        return Cause(UNEXPLAINED, title, "What comes back?", "wrong", "Nobody has examined these answers yet.", ())
    return load_causes()[name]


def _rank_example(one: Evidence, *, is_worst: bool) -> tuple[Any, ...]:
    """Return a key that sorts the best example first: one that fails the run, in float32, with few short numbers.

    An example with a milder effect would not show why the finding is severe. Among finite numbers and infinities, the
    finite ones say more: a threshold of -1 is a likelier mistake than one of minus infinity.
    """
    case = one.judged.context.case
    # Long gradients come last for their size alone.
    arrays = [tensor.array for tensor in case.gradients if tensor.array is not None] if one.size <= LARGE else []
    elements = [read_float64_values(array) for array in arrays]
    thresholds = [case.options.get(name) for name in ("clip_norm", "max", "min")]
    has_limits = all(not isinstance(one, float) or math.isfinite(one) for one in thresholds)
    are_finite = has_limits and all(np.isfinite(values).all() for values in elements)
    are_zero = bool(elements) and not any(np.count_nonzero(values) for values in elements)
    is_usual = case.expectation.name in ("values", "untouched", "refused", "returned-norm", "not-silent")
    # An integer is written shorter, but most callers pass a float.
    has_integers = any(type(value) is int for value in case.options.values())
    return (
        one.cell.status not in SPOILING,
        one.cell.dtype != "float32",
        not are_finite,
        not is_worst,
        are_zero,
        not is_usual,
        one.size,
        has_integers,
        len(str(one.cell.input)),
    )
