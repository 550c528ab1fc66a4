"""What a framework answered, read back from a record, which shows the first elements of the first gradients."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from gradclip_adapters.contract import Array
from gradclip_reports.records import Cell

from ..cases.literals import NoScript
from ..cases.model import Case, Metamorphic, Values
from ..judge.measure import measure
from ..judge.relations import RELATIONS
from ..oracle.formats import FORMATS, encode
from ..oracle.predict import predict

__all__ = ["shown_case"]


def shown_case(case: Case, cell: Cell) -> Case:
    """The case by which a script can show a cell: of a relation the call that has not the values it had to have.

    Where the results of two calls are further apart than their errors allow, one of them at least is wrong by itself.
    Of a clip by value, which is element by element, the elements that the record shows, if they are wrong.

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
    """The case with as many elements of its gradient as the record shows, where those show what is wrong."""
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
    """What is shown of the answer to the first call; of two calls the second was observed, and the first expected."""
    two = isinstance(case.expectation, Metamorphic) and case.expectation.relation in RELATIONS
    shown = cell.expected if two else cell.observed
    return shown if isinstance(shown, Mapping) and ("gradients" in shown or "norm" in shown) else None


def _array(shown: Mapping[str, Any] | None) -> Array | None:
    if shown is None:
        return None
    values = [float.fromhex(value) for value in shown["values"]]
    shape = (len(values),) if "elements" in shown else tuple(shown["shape"])
    return Array(shown["dtype"], shape, encode(values, shown["dtype"]))
