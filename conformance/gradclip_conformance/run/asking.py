"""Ask an entry point for the answer to a case."""

from __future__ import annotations

from dataclasses import replace

from gradclip_adapters.contract import Call, EntryPoint

from ..cases.model import Case
from ..cases.stacking import Stacking
from ..judge.model import Answer, Connection, Raised, Replied


def begin_case(connection: Connection, case: Case, entry_point: EntryPoint) -> int:
    """Let an entry point begin to answer a case that will be asked soon. Return how many bytes its gradients have."""
    call = _make_call(case, entry_point)
    connection.begin(call)
    return sum(len(gradient.array.data) for gradient in call.gradients if gradient.array is not None)


def ask_case(connection: Connection, case: Case, entry_point: EntryPoint, timeout: float) -> Answer:
    """Return the answer of an entry point to a case. Examples and units are stacked, and answers are taken apart."""
    stacking = Stacking(entry_point)
    answer = connection.ask(_make_call(case, entry_point), timeout)
    if isinstance(answer, Replied):
        return Replied(stacking.split_reply(case.gradients, answer.reply))
    if isinstance(answer, Raised):
        return replace(answer, inputs=stacking.split_inputs(case.gradients, answer.inputs))
    return answer


def _make_call(case: Case, entry_point: EntryPoint) -> Call:
    call = case.call(entry_point.name)
    stacked = Stacking(entry_point).stack(call.gradients)
    return call if stacked is call.gradients else replace(call, gradients=stacked)
