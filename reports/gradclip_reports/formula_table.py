"""Compare the formulas of two runs: what multiplies the gradients, which norms there are, what comes back."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from gradclip_adapters.operations import OPERATIONS
from gradclip_spec.rules.questions import Question

from .lines import Run
from .site.catalogue import Catalogue
from .site.questions import PREFIXES, answer_run, write_answer
from .statuses import UNJUDGED, Status
from .values import escape_line, shorten_text

#: The questions of the matrix that are about the formula, with their labels, in the order of the table.
_QUESTIONS = {
    "above": "Factor above the threshold",
    "below": "Below the threshold",
    "half": "Norm of half precision",
    "returned-norm": "Returned norm",
    "written": "Results",
    "excluded": "Excluded parameters",
    "none": "No gradient (None)",
    "mixed": "Mixed dtypes",
}
#: The greatest length of the name of a dtype, which comes from a record.
_LENGTH = 20
#: What a row says if the record does not hold it.
_UNKNOWN = "not asked"


@dataclass(frozen=True)
class FormulaRow:
    """What both sides do in one respect."""

    label: str
    answers: tuple[str, str]

    @property
    def is_same(self) -> bool:
        """Whether both do the same."""
        return self.answers[0] == self.answers[1]


def compare_formulas(
    runs: Sequence[Run], entry_points: Sequence[Collection[str]], questions: Sequence[Question]
) -> list[FormulaRow]:
    """Return the rows of the table for the first operation that both sides offer, or no rows if there is none.

    Parameters
    ----------
    runs
        The two runs.
    entry_points
        For each run, the entry points that are compared.
    questions
        The questions of the matrix.
    """
    first, second = (describe_formulas(run, names, questions) for run, names in zip(runs, entry_points, strict=True))
    operation = next((name for name in first if name in second), None)
    if operation is None:
        return []
    rows = [FormulaRow(label, (text, second[operation][label])) for label, text in first[operation].items()]
    return [row for row in rows if set(row.answers) != {_UNKNOWN}]


def describe_formulas(
    run: Run, entry_points: Collection[str], questions: Sequence[Question]
) -> dict[str, Mapping[str, str]]:
    """Return what entry points of a run do: for each operation that they have, a text for each label of the table."""
    header = replace(run.header, subjects=[one for one in run.header.subjects if one["name"] in entry_points])
    part = replace(run, header=header, cells=tuple(cell for cell in run.cells if cell.subject in entry_points))
    offered = {entry_point["operation"] for entry_point in header.subjects}
    return {operation: _describe(part, operation, questions) for operation in PREFIXES if operation in offered}


def _describe(run: Run, operation: str, questions: Sequence[Question]) -> Mapping[str, str]:
    found = answer_run(run, Catalogue([question for question in questions if question.id in _QUESTIONS]), operation)
    answers = {_QUESTIONS[name]: write_answer(found[name]) for name in _QUESTIONS if name in found}
    factor = answers.pop(_QUESTIONS["above"], _UNKNOWN)
    return {
        _QUESTIONS["above"]: factor,
        "At the threshold": _describe_threshold(run, operation, factor),
        "Orders of the norm": _list_orders(run, operation),
        "Dtype of the norm": _describe_dtypes(run, operation),
        **answers,
    }


def _describe_threshold(run: Run, operation: str, factor: str) -> str:
    """Return what becomes of gradients whose norm is exactly the threshold, in float32."""
    cells = [
        cell
        for cell in run.cells
        if cell.rule == f"{PREFIXES[operation]}.at-threshold"
        and cell.dtype == "float32"
        and cell.status not in UNJUDGED
    ]
    if not cells:
        return _UNKNOWN
    differing = sum(cell.status != Status.PASS for cell in cells)
    if not differing:
        return "unchanged"
    return f"times {factor}" if "+" in factor else f"changed in {differing} of {len(cells)} cases"


def _list_orders(run: Run, operation: str) -> str:
    """Return the orders of the norm that are offered. A clip by value has none."""
    orders = {
        float.fromhex(order)
        for entry_point in run.header.subjects
        if entry_point["operation"] == operation
        for order in entry_point["norm_types"]
    }
    is_norm = OPERATIONS[operation].is_by_norm
    return ", ".join(f"{order:g}" for order in sorted(orders)) if is_norm and orders else _UNKNOWN


def _describe_dtypes(run: Run, operation: str) -> str:
    """Return the dtype of the returned norm for each dtype of the gradients. Cells that passed do not hold it."""
    times: dict[str, Counter[str]] = {}
    for cell in run.cells:
        norm = cell.observed.get("norm") if isinstance(cell.observed, Mapping) else None
        # Gradients of several dtypes have a case of their own.
        if cell.operation == operation and isinstance(norm, Mapping) and "+" not in cell.dtype:
            times.setdefault(cell.dtype, Counter())[shorten_text(escape_line(str(norm.get("dtype"))), _LENGTH)] += 1
    if not times:
        return _UNKNOWN
    found = {dtype: counts.most_common(1)[0][0] for dtype, counts in times.items()}
    others = [f"{norm} for {dtype}" for dtype, norm in found.items() if norm != dtype]
    return ", ".join(others) or "that of the gradients"
