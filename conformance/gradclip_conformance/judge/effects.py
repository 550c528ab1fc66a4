"""Errors that had to be raised, what became of the gradients that were passed, and repetition."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from gradclip_adapters.contract import Array, Reply

from ..cases.model import Case, Repeatable, Values
from ..cases.readable import SHOWN_ELEMENTS, readable_array
from ..oracle.predict import predict
from .answers import Answer, Raised
from .context import Context
from .form import broken_form
from .measure import same_bits
from .values import not_silent, untouched, values
from .verdict import Verdict
from .wording import observed_answer, what_happened

__all__ = ["inputs_kept", "inputs_written", "nothing_changed", "raises_on_nonfinite", "refused", "repeatable"]


def refused(case: Case, answer: Answer) -> Verdict:
    """An error, and nothing changed when it is raised."""
    if isinstance(answer, Raised):
        return nothing_changed(case, answer)
    detail = (
        f"A threshold of {case.options['clip_norm']} must be refused with an error; it {what_happened(case, answer)}."
    )
    return Verdict("fail", detail, expected="an error", observed=observed_answer(answer))


def raises_on_nonfinite(case: Case, answer: Answer, atomic: bool) -> Verdict:
    """An error; and nothing changed when it is raised, where that is asked for."""
    if isinstance(answer, Raised):
        return nothing_changed(case, answer) if atomic else Verdict("pass")
    detail = f"`error_if_nonfinite` was set, the norm is not finite, and it {what_happened(case, answer)}."
    return Verdict("fail", detail, expected="an error", observed=observed_answer(answer))


def nothing_changed(case: Case, answer: Raised) -> Verdict:
    """What raised has left the gradients that were passed as they were."""
    if answer.inputs is None:
        return Verdict("pass")
    changed = _first_changed(case, answer.inputs)
    if changed is None:
        return Verdict("pass")
    detail = f"It raised {answer.kind}, and gradient {changed} had been changed by then."
    return Verdict("fail", detail, expected="unchanged gradients", observed=observed_answer(answer))


def _first_changed(case: Case, after: Sequence[Array | None]) -> int | None:
    """The first gradient that no longer holds what was passed."""
    for i, gradient in enumerate(case.gradients):
        # What is missing does not hold what was passed.
        now = after[i] if i < len(after) else None
        if gradient.array is not None and not same_bits(gradient.array, now, False):
            return i
    return None


_NOT_READ_BACK = Verdict("unsupported", "The adapter cannot read back the gradients that it passed.")


def inputs_kept(case: Case, reply: Reply) -> Verdict:
    """The gradients that were passed hold what they held."""
    if reply.inputs is None:
        return _NOT_READ_BACK
    changed = _first_changed(case, reply.inputs)
    if changed is None:
        return Verdict("pass")
    expected: Any = readable_array(case.gradients[changed].array)
    observed = readable_array(reply.inputs[changed]) if changed < len(reply.inputs) else None
    return Verdict("fail", f"Gradient {changed} that was passed has been changed.", None, expected, observed)


def inputs_written(context: Context, reply: Reply) -> Verdict:
    """The gradients that were passed hold the results."""
    if reply.inputs is None:
        return _NOT_READ_BACK
    case, written = context.case, replace(reply, gradients=reply.inputs)
    if (broken := broken_form(case, written)) is not None:
        return replace(broken, detail=f"Of the gradients that were passed, afterwards: {broken.detail}")
    excluded = [i for i, gradient in enumerate(case.gradients) if not gradient.need_clip]
    if (found := untouched(context, excluded, written)).status != "pass":
        return found
    if case.operation != "clip_by_value" and None in predict(case).norms:
        return not_silent(context, written)
    return values(context, Values(), reply.inputs)


def repeatable(replies: Sequence[Reply], repeated: Repeatable) -> Verdict:
    """All answers hold the same bits."""
    first = replies[0]
    if all((each.gradients, each.norm) == (first.gradients, first.norm) for each in replies):
        return Verdict("pass")
    how = "on fresh copies of the same gradients"
    if repeated.threads:
        how = f"from one of {repeated.threads} threads at once, of which every other one makes another call,"
    if repeated.reused:
        how = "on gradients that held other numbers, and were clipped with other options, before"
    shown = [{"gradients": [readable_array(array) for array in each.gradients[:SHOWN_ELEMENTS]]} for each in replies]
    return Verdict("fail", f"The same call {how} gave other bits.", None, shown[0], shown[-1])
