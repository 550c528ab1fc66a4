"""Ask a subject for the answer to a case."""

from __future__ import annotations

from dataclasses import replace

from gradclip_adapters.contract import Subject

from ..cases.model import Case
from ..cases.stacking.examples import PER_EXAMPLE, split_inputs, split_sums, stack_examples
from ..cases.stacking.units import UNITWISE, split_unit_inputs, split_units, stack_units
from ..judge.model import Answer, Connection, Raised, Replied

__all__ = ["ask_case"]


def ask_case(connection: Connection, case: Case, subject: Subject, timeout: float) -> Answer:
    """Return the answer of a subject to a case. Examples and units are stacked, and answers are taken apart."""
    call = case.call(subject.name)
    if case.operation == UNITWISE:
        last = "units_last" in subject.features
        answer = connection.ask(replace(call, gradients=stack_units(case.gradients, last=last)), timeout)
        if isinstance(answer, Replied):
            return Replied(split_units(case.gradients, answer.reply, last=last))
        if isinstance(answer, Raised):
            return replace(answer, inputs=split_unit_inputs(case.gradients, answer.inputs, last=last))
        return answer
    if case.operation != PER_EXAMPLE:
        return connection.ask(call, timeout)
    answer = connection.ask(replace(call, gradients=stack_examples(case.gradients)), timeout)
    if isinstance(answer, Replied):
        return Replied(split_sums(case.gradients, answer.reply))
    if isinstance(answer, Raised):
        return replace(answer, inputs=split_inputs(case.gradients, answer.inputs))
    return answer
