"""Ask a subject for the answer to a case."""

from __future__ import annotations

from dataclasses import replace

from gradclip_adapters.contract import Subject

from ..cases.model import Case
from ..cases.stacking import Stacking
from ..judge.model import Answer, Connection, Raised, Replied

__all__ = ["ask_case"]


def ask_case(connection: Connection, case: Case, subject: Subject, timeout: float) -> Answer:
    """Return the answer of a subject to a case. Examples and units are stacked, and answers are taken apart."""
    stacking, call = Stacking(subject), case.call(subject.name)
    answer = connection.ask(replace(call, gradients=stacking.stack(call.gradients)), timeout)
    if isinstance(answer, Replied):
        return Replied(stacking.split_reply(case.gradients, answer.reply))
    if isinstance(answer, Raised):
        return replace(answer, inputs=stacking.split_inputs(case.gradients, answer.inputs))
    return answer
