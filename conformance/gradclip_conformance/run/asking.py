"""Ask a subject for the answer to a case."""

from __future__ import annotations

from dataclasses import replace

from gradclip_adapters.contract import Call, EntryPoint

from ..cases.model import Case
from ..cases.stacking import Stacking
from ..judge.model import Answer, Connection, Raised, Replied


def begin_case(connection: Connection, case: Case, subject: EntryPoint) -> int:
    """Let a subject begin to answer a case that will be asked soon. Return the number of bytes of its gradients."""
    call = _make_call(case, subject)
    connection.begin(call)
    return sum(len(gradient.array.data) for gradient in call.gradients if gradient.array is not None)


def ask_case(connection: Connection, case: Case, subject: EntryPoint, timeout: float) -> Answer:
    """Return the answer of a subject to a case. Examples and units are stacked, and answers are taken apart."""
    stacking = Stacking(subject)
    answer = connection.ask(_make_call(case, subject), timeout)
    if isinstance(answer, Replied):
        return Replied(stacking.split_reply(case.gradients, answer.reply))
    if isinstance(answer, Raised):
        return replace(answer, inputs=stacking.split_inputs(case.gradients, answer.inputs))
    return answer


def _make_call(case: Case, subject: EntryPoint) -> Call:
    call = case.call(subject.name)
    stacked = Stacking(subject).stack(call.gradients)
    return call if stacked is call.gradients else replace(call, gradients=stacked)
