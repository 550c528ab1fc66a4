"""What a framework answered, read back from a record, which shows the first elements of the first gradients."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from gradclip_adapters.contract import DTYPES, Array, Reply
from gradclip_reports.records import Cell

from .answers import Raised, Replied
from .behaviour import behaviour_of
from .case import Case, Metamorphic, Values
from .cases import all_cases
from .formats import FORMATS, encode
from .literals import NoScript
from .measure import measure
from .predict import predict
from .relations import RELATIONS

__all__ = ["behaviour_in", "shown_case"]


def behaviour_in(cell: Cell) -> str:
    """The word of `behaviour` for a cell; "unknown" where the record does not show the answer."""
    case = next((case for case in all_cases() if case.id == cell.case), None)
    if case is None or not isinstance(cell.observed, Mapping):
        return "unknown"
    if "raised" in cell.observed:
        return behaviour_of(case, Raised(cell.observed["raised"], cell.observed["text"]))
    if (shown := _first_answer(cell, case)) is None:
        return "unknown"
    gradients = shown.get("gradients", ())
    norm = shown.get("norm")
    if any(one is not None and one["dtype"] not in DTYPES for one in (*gradients, norm)):
        return "unknown"
    return behaviour_of(_as_shown(case, gradients), Replied(Reply(tuple(map(_array, gradients)), _array(norm))))


def shown_case(case: Case, cell: Cell) -> Case:
    """The case by which a script can show a cell: of a relation the call that has not the values it had to have.

    Where the results of two calls are further apart than their errors allow, one of them at least is wrong by itself.

    Raises
    ------
    NoScript
        When each call, seen alone, is right.
    """
    if not isinstance(case.expectation, Metamorphic):
        return case
    relation = RELATIONS.get(case.expectation.relation)
    first = replace(case, expectation=Values())
    if isinstance(cell.observed, Mapping) and "raised" in cell.observed:
        # The record does not say which of the two calls raised; what is split or scaled may be why.
        return first if relation is None or case.expectation.relation == "twice" else relation.second(first, ())
    shown = _first_answer(cell, case)
    if shown is None:
        msg = f"The record does not show the answers to {case.id}."
        raise NoScript(msg)
    results = tuple(map(_array, shown["gradients"]))
    if measure(first, predict(first), results, first.included).grade == "fail":
        return first
    if relation is None:
        msg = f"A script cannot show what {case.id} expects: each of its numbers is right by itself."
        raise NoScript(msg)
    return replace(relation.second(case, results), expectation=Values())


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


def _as_shown(case: Case, shown: Iterable[Mapping[str, Any] | None]) -> Case:
    """The case with each gradient cut to as many elements as the record shows of its result."""
    gradients = list(case.gradients)
    for i, one in enumerate(shown):
        array = gradients[i].array
        if one is not None and "elements" in one and array is not None:
            count, width = len(one["values"]), FORMATS[array.dtype].width // 8
            gradients[i] = replace(gradients[i], array=Array(array.dtype, (count,), array.data[: count * width]))
    return replace(case, gradients=tuple(gradients))
