"""Read cases and answers back from a record, which shows the first elements of the first gradients.

A record may be forged: each number is parsed, each name is looked up, and anything that does not fit is refused.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from gradclip_adapters.operations import OPERATIONS
from gradclip_reports.records import Cell
from gradclip_spec import rules

from ..cases import regressions
from ..cases.literals import NoScript
from ..cases.model import Case
from ..cases.readable import read_shown_array
from ..judge.expectation import Expectation
from ..oracle.distances import measure
from ..oracle.formats import FORMATS
from ..oracle.predict import predict

__all__ = ["choose_shown_case", "find_case"]

#: The options that a case of `--deep` may have.
FIND_OPTIONS = {name: {each.threshold, *({"min"} & {*each.parameters})} for name, each in OPERATIONS.items()}


def find_case(cell: Cell) -> Case | None:
    """Return the case that `--deep` found, made from the input in the record. Return None for any other cell.

    Raises
    ------
    NoScript
        If `--deep` does not make such an input.
    """
    if not regressions.is_find(cell.case) or cell.input is None:
        return None
    rule, _, dtype = cell.case.split("/")
    if dtype not in FORMATS or rule not in {one.id for one in rules.load()}:
        msg = f"There is no rule {rule!r} for the dtype {dtype!r}."
        raise NoScript(msg)
    try:
        case = regressions.make_find(cell.case, cell.input)
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError) as error:
        msg = f"The input of {cell.case!r} is not one that --deep makes: {error}."
        raise NoScript(msg) from error
    unknown = sorted(set(case.options) - FIND_OPTIONS[case.operation])
    if unknown or not all(type(gradient.need_clip) is bool for gradient in case.gradients):
        msg = f"The input of {cell.case!r} is not one that --deep makes: {unknown or 'need_clip'} is not an option."
        raise NoScript(msg)
    return case


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
