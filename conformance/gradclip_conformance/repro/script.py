"""Write the script of one cell. It needs no suite, and fails if the framework fails.

All code comes from `gradclip_adapters.scripts` and `contract`, never from a record. A record's adapter, entry point and
options are looked up by their exact names. Numbers are parsed, and texts are escaped (`cases.literals`).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from gradclip_adapters import registry
from gradclip_adapters.contract import EntryPoint
from gradclip_adapters.operations import OPERATIONS
from gradclip_adapters.wire import decode_entry_point
from gradclip_reports.limits import shorten
from gradclip_reports.records import Cell, Header
from gradclip_spec import rules

from ..cases.literals import NoScript, write_docstring
from ..cases.model import Case
from ..cases.readable import read_shown_array, show_input
from ..judge.everywhere import make_case_of_broken_rule
from ..judge.expectation import Expectation
from ..judge.judging import choose_expectation
from ..judge.model import Script
from ..oracle.distances import measure
from ..oracle.formats import FORMATS
from ..oracle.predict import predict
from ..run.plan import find_case, plan_case
from . import contract, direct
from .source import has_source

__all__ = ["NoScript", "write_script"]


def write_script(header: Header, cell: Cell, command: str | None = None, *, explained: bool = True) -> str:
    """Return the script of a cell.

    Parameters
    ----------
    header, cell
        The header and a cell of a record.
    command
        The command that starts the host of an adapter, if it is not a Python module or file here.
    explained
        Whether the script begins with a docstring that states the rule, and names the record and the case.

    Raises
    ------
    NoScript
        If no function says how to call the entry point without the suite, or if no script can show the case.
    """
    entry_point = _find_entry_point(header, cell)
    has_calls = registry.find_kind(header.adapter) == "function" or has_source(header.adapter)
    # The adapter starts the processes of a distributed call.
    is_direct = command is None and has_calls and "distributed" not in entry_point.features
    asked = _find_case(cell, entry_point)
    if cell.breaks is not None:
        broken = make_case_of_broken_rule(asked, cell.breaks)
        if broken is None:
            msg = f"the answer breaks {shorten(cell.breaks, 100)}, which no script can show"
            raise NoScript(msg)
        asked = broken
    case = _choose_shown_case(asked, choose_expectation(asked), cell)
    expectation = choose_expectation(case)
    raised = isinstance(cell.observed, Mapping) and "raised" in cell.observed
    # The record of a cell that passed shows no answer, but its behaviour.
    rightly = cell.status == "pass" and str(cell.behaviour).startswith("raises:")
    if is_direct:
        calls = direct.write_calls(header.adapter, case, entry_point, compiles=expectation.compiles)
    else:
        # The environment of a function names torch if the function gets arrays of torch.
        arrays = "torch" if "torch" in header.environment else "numpy"
        calls = contract.write_calls(
            header.adapter, case, entry_point, compiles=expectation.compiles, command=command, arrays=arrays
        )
    body = expectation.write_script(Script(case, entry_point, calls.call, raised, calls.compiled, rightly))
    docstring = [_write_docstring(header, cell, case), ""] if explained else []
    top = [*_list_imports(body, calls.top), calls.top.strip()]
    return "\n".join([*docstring, *top, *["", ""] * ("\ndef " in calls.top), body, ""])


def _list_imports(body: str, top: str) -> list[str]:
    """Return the lines that import the modules that a script's body uses, and that its top does not import."""
    special = sorted(set(re.findall(r"\b(?:nan|inf)\b", body)))
    imports = [f"from math import {', '.join(special)}\n"] if special else []
    imports += ["import sys\nfrom concurrent.futures import ThreadPoolExecutor\n"] if "ThreadPool" in body else []
    return imports + (["import numpy as np"] if "np." in body and "import numpy as np" not in top else [])


def _find_entry_point(header: Header, cell: Cell) -> EntryPoint:
    """Return the entry point of a cell, as the record's header declares it."""
    try:
        (entry_point,) = (decode_entry_point(each) for each in header.subjects if each["name"] == cell.subject)
    except (ValueError, KeyError, TypeError, OverflowError) as error:
        msg = f"The record must declare the entry point {cell.subject!r} exactly once, with numbers that can be read."
        raise NoScript(msg) from error
    return entry_point


def _write_docstring(header: Header, cell: Cell, case: Case) -> str:
    # Only the source line comes from the record. The rule's statement comes from the suite's own rule catalogue.
    rule = next((rule for rule in rules.load() if rule.id == case.rule), None)
    if rule is None or case.rule != (cell.breaks or cell.rule):
        msg = f"The rule catalogue has no rule {cell.rule!r} for the case {cell.case!r}."
        raise NoScript(msg)
    source = f"{cell.subject}, {header.heading}, case {cell.case}"
    return write_docstring([f"{rule.id} ({rule.level}): {rule.statement}", "", source])


def _find_case(cell: Cell, entry_point: EntryPoint) -> Case:
    """Return the case of a cell, for its entry point and with the same numbers as in the record."""
    case = find_case(cell.case)
    if case is None:
        msg = (
            f"This version of the suite has no case {cell.case!r}: make a script with the version that made the record."
        )
        raise NoScript(msg)
    if case.operation != entry_point.operation:
        msg = f"The case {cell.case!r} is not one of {entry_point.operation}, the operation of {cell.subject!r}."
        raise NoScript(msg)
    planned = plan_case(entry_point, case)
    if planned.missing is not None:
        raise NoScript(planned.missing)
    if cell.input is not None and cell.input != show_input(planned.case):
        msg = f"The case {cell.case} had other numbers in the version of the suite that made the record: run it again."
        raise NoScript(msg)
    # The case of a row makes its gradients when they are needed. If the answer breaks another rule, the script shows a
    # case of that rule with the same gradients, so the gradients must be held.
    return planned.case.make()


def _choose_shown_case(case: Case, expectation: Expectation, cell: Cell) -> Case:
    """Return the case that a script uses to show a cell: the case itself, unless its expectation names another.

    A clip by value works element by element, so its case is cut to the elements in the record, if these are wrong.
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
