"""Read cases and answers back from a record, which shows the first elements of the first gradients.

A record may come from anybody: each number is parsed, each name is looked up, and what does not fit is refused.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from gradclip_adapters.contract import Array
from gradclip_reports.records import Cell
from gradclip_spec import rules

from ..cases import regressions
from ..cases.literals import NoScript
from ..cases.model import Case, Metamorphic, Values
from ..judge.measure import measure
from ..judge.relations import RELATIONS
from ..oracle.formats import FORMATS, encode
from ..oracle.predict import predict

__all__ = ["find_case", "shown_case"]

#: The options of a find, which `--deep` gives no others.
FIND_OPTIONS = {
    "clip_by_value": {"max", "min"},
    "clip_by_norm": {"clip_norm"},
    "clip_by_global_norm": {"clip_norm"},
}


def find_case(cell: Cell) -> Case | None:
    """Return the case of a find of `--deep`, made of the input that the record shows; None of any other cell.

    Raises
    ------
    NoScript
        When the input is not one that `--deep` makes.
    """
    if not regressions.is_find(cell.case) or cell.input is None:
        return None
    rule, _, dtype = cell.case.split("/")
    if dtype not in FORMATS or rule not in {one.id for one in rules.load()}:
        msg = f"There is no rule {rule!r} for the dtype {dtype!r}."
        raise NoScript(msg)
    try:
        case = regressions.from_record(cell.case, cell.input)
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError) as error:
        msg = f"The input of {cell.case!r} is not one that --deep makes: {error}."
        raise NoScript(msg) from error
    unknown = sorted(set(case.options) - FIND_OPTIONS[case.operation])
    if unknown or not all(type(gradient.need_clip) is bool for gradient in case.gradients):
        msg = f"The input of {cell.case!r} is not one that --deep makes: {unknown or 'need_clip'} is not an option."
        raise NoScript(msg)
    return case


def shown_case(case: Case, cell: Cell) -> Case:
    """Return a case whose script reproduces the cell.

    Of a relation between two calls, return the call whose result is wrong by itself: where the results are further
    apart than their errors allow, one of them is. Of a clip by value, which goes element by element, return the
    elements that the record shows, if those are wrong.

    Raises
    ------
    NoScript
        When each call, seen alone, is right.
    """
    if not isinstance(case.expectation, Metamorphic):
        return _cut(case, cell) if case.operation == "clip_by_value" else case
    relation = RELATIONS.get(case.expectation.relation)
    first = replace(case, expectation=Values())
    if isinstance(cell.observed, Mapping) and "raised" in cell.observed:
        # The record does not say which of the two calls raised; what is split or scaled may be why.
        return first if relation is None or case.expectation.relation == "twice" else relation.second(first, ())
    shown = _first_answer(cell, case)
    if shown is None:
        msg = f"{case.id} relates two calls, and the record does not show the answers to them: nothing is wrong there."
        raise NoScript(msg)
    results = tuple(map(_array, shown["gradients"]))
    if measure(first, predict(first), results, first.included).grade == "fail":
        return first
    if relation is None:
        msg = f"A script cannot show what {case.id} expects: each of its numbers is right by itself."
        raise NoScript(msg)
    return replace(relation.second(case, results), expectation=Values())


def _cut(case: Case, cell: Cell) -> Case:
    """Return the case with the elements that the record shows, where those show what is wrong."""
    shown = _first_answer(cell, case)
    answers: Sequence[Any] = () if shown is None else shown.get("gradients", ())
    if len(case.gradients) != 1 or len(answers) != 1:
        return case
    (gradient,), (answered,) = case.gradients, answers
    if gradient.array is None or answered is None or "elements" not in answered:
        return case
    result = _array(answered)
    count, width = len(answered["values"]), FORMATS[gradient.array.dtype].width // 8
    first = Array(gradient.array.dtype, (count,), gradient.array.data[: count * width])
    fewer = replace(case, gradients=(replace(gradient, array=first),))
    return fewer if measure(fewer, predict(fewer), [result], fewer.included).grade == "fail" else case


def _first_answer(cell: Cell, case: Case) -> Mapping[str, Any] | None:
    """Return what is shown of the answer to the first call: a record has it as `expected` where there were two."""
    two = isinstance(case.expectation, Metamorphic) and case.expectation.relation in RELATIONS
    shown = cell.expected if two else cell.observed
    return shown if isinstance(shown, Mapping) and ("gradients" in shown or "norm" in shown) else None


def _array(shown: Mapping[str, Any] | None) -> Array | None:
    """Return an array that a record shows, or its first elements as an array of one dimension.

    Raises
    ------
    NoScript
        When the record shows no such array.
    """
    if shown is None:
        return None
    try:
        values = [float.fromhex(value) for value in shown["values"]]
        shape = (len(values),) if "elements" in shown else tuple(shown["shape"])
        if not all(type(length) is int for length in shape) or math.prod(shape) != len(values):
            msg = f"the shape does not hold {len(values)} numbers"
            raise ValueError(msg)
        return Array(shown["dtype"], shape, encode(values, shown["dtype"]))
    except (ValueError, KeyError, TypeError, OverflowError) as error:
        msg = f"The record shows an array that cannot be read ({type(error).__name__}: {error})."
        raise NoScript(msg) from error
