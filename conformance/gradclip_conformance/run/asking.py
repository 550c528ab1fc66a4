"""Ask a subject for the answer to a case."""

from __future__ import annotations

from dataclasses import replace

from ..cases.model import Case
from ..cases.stacking import PER_EXAMPLE, split_inputs, split_sums, stack_examples
from ..judge.model import Answer, Connection, Raised, Replied

__all__ = ["ask_case"]


def ask_case(connection: Connection, case: Case, subject: str, timeout: float) -> Answer:
    """Return the answer of a subject to a case. Examples are stacked, and their sums are taken apart."""
    call = case.call(subject)
    if case.operation != PER_EXAMPLE:
        return connection.ask(call, timeout)
    answer = connection.ask(replace(call, gradients=stack_examples(case.gradients)), timeout)
    if isinstance(answer, Replied):
        return Replied(split_sums(case.gradients, answer.reply))
    if isinstance(answer, Raised):
        return replace(answer, inputs=split_inputs(case.gradients, answer.inputs))
    return answer
