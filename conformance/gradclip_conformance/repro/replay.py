"""Choose the case by which a script shows a cell, from the answer in a record."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from gradclip_adapters.operations import OPERATIONS
from gradclip_reports.records import Cell

from ..cases.model import Case
from ..cases.readable import read_shown_array
from ..judge.expectation import Expectation
from ..oracle.distances import measure
from ..oracle.formats import FORMATS
from ..oracle.predict import predict

__all__ = ["choose_shown_case"]


def choose_shown_case(case: Case, expectation: Expectation, cell: Cell) -> Case:
    """Return the case that a script uses to show a cell: the case itself, unless its expectation names another.

    A clip by value works element by element, so its case is cut to the elements in the record, if these are wrong.

    Raises
    ------
    NoScript
        If a script cannot show a wrong answer.
    """
    instead = expectation.choose_case_to_show(case, cell)
    if instead is not None:
        return instead
    return _cut(case, expectation.show_first(cell)) if not OPERATIONS[case.operation].is_by_norm else case


def _cut(case: Case, shown: Any) -> Case:
    """Return the case with only the elements that the record shows, if they show the failure."""
    answers = shown.get("gradients") if isinstance(shown, Mapping) else None
    if len(case.gradients) != 1 or not isinstance(answers, list) or len(answers) != 1:
        return case
    (gradient,), (answered,) = case.gradients, answers
    if gradient.array is None or not isinstance(answered, Mapping) or "elements" not in answered:
        return case
    result = read_shown_array(answered)
    if result is None or result.dtype != gradient.array.dtype or len(result.data) > len(gradient.array.data):
        return case
    width = FORMATS[result.dtype].width // 8
    first = replace(result, data=gradient.array.data[: result.shape[0] * width])
    fewer = replace(case, gradients=(replace(gradient, array=first),))
    return fewer if measure(fewer, predict(fewer), [result], fewer.included).grade == "fail" else case
