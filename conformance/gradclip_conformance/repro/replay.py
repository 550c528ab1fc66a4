"""Choose the case by which a script shows what a framework answered, as a record tells it.

A record shows the first elements of the first gradients.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from gradclip_adapters.contract import Array
from gradclip_reports.records import Cell

from ..cases.model import Case
from ..cases.readable import array_of
from ..judge.expectation import Expectation
from ..oracle.distances import measure
from ..oracle.formats import FORMATS
from ..oracle.predict import predict

__all__ = ["shown_case"]


def shown_case(case: Case, expectation: Expectation, cell: Cell) -> Case:
    """Return the case by which a script can show a cell: the case itself, unless its expectation names another.

    Of a clip by value, which is element by element, it is cut to the elements that the record shows, if they are wrong.

    Raises
    ------
    NoScript
        When nothing that a script can show is wrong.
    """
    instead = expectation.case_to_show(case, cell)
    if instead is not None:
        return instead
    return _cut(case, expectation.shown_first(cell)) if case.operation == "clip_by_value" else case


def _cut(case: Case, shown: Any) -> Case:
    """Return the case with as many elements of its gradient as the record shows, where those show what is wrong."""
    answers: Sequence[Any] = shown.get("gradients", ()) if isinstance(shown, Mapping) else ()
    if len(case.gradients) != 1 or len(answers) != 1:
        return case
    (gradient,), (answered,) = case.gradients, answers
    if gradient.array is None or answered is None or "elements" not in answered:
        return case
    result = array_of(answered)
    count, width = len(answered["values"]), FORMATS[gradient.array.dtype].width // 8
    first = Array(gradient.array.dtype, (count,), gradient.array.data[: count * width])
    fewer = replace(case, gradients=(replace(gradient, array=first),))
    return fewer if measure(fewer, predict(fewer), [result], fewer.included).grade == "fail" else case
