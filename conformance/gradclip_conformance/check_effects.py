"""Errors that had to be raised, what became of the gradients that were passed, and repetition."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gradclip_adapters.contract import Array, Reply

from .answers import Answer, Raised
from .case import Case, Values
from .check_values import values
from .context import Context
from .measure import same_bits
from .sentences import observed_answer, what_happened
from .show import readable_array
from .verdict import Verdict

__all__ = ["inputs_kept", "inputs_written", "raises_on_nonfinite", "refused", "repeatable"]


def refused(case: Case, answer: Answer) -> Verdict:
    """An error, and nothing changed when it is raised."""
    if isinstance(answer, Raised):
        return _nothing_changed(case, answer)
    detail = (
        f"A threshold of {case.options['clip_norm']} must be refused with an error; it {what_happened(case, answer)}."
    )
    return Verdict("fail", detail, expected="an error", observed=observed_answer(answer))


def raises_on_nonfinite(case: Case, answer: Answer, atomic: bool) -> Verdict:
    """An error; and nothing changed when it is raised, where that is asked for."""
    if isinstance(answer, Raised):
        return _nothing_changed(case, answer) if atomic else Verdict("pass")
    detail = f"`error_if_nonfinite` was set, the norm is not finite, and it {what_happened(case, answer)}."
    return Verdict("fail", detail, expected="an error", observed=observed_answer(answer))


def _nothing_changed(case: Case, answer: Raised) -> Verdict:
    if answer.inputs is None:
        return Verdict("pass")
    changed = _first_changed(case, answer.inputs)
    if changed is None:
        return Verdict("pass")
    detail = f"It raised {answer.kind}, and gradient {changed} had been changed by then."
    return Verdict("fail", detail, expected="unchanged gradients", observed=observed_answer(answer))


def _first_changed(case: Case, after: Sequence[Array | None]) -> int | None:
    """The first gradient that no longer holds what was passed."""
    for i, (gradient, now) in enumerate(zip(case.gradients, after, strict=True)):
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
    observed = readable_array(reply.inputs[changed])
    return Verdict("fail", f"Gradient {changed} that was passed has been changed.", None, expected, observed)


def inputs_written(context: Context, reply: Reply) -> Verdict:
    """The gradients that were passed hold the results."""
    return _NOT_READ_BACK if reply.inputs is None else values(context, Values(), reply.inputs)


def repeatable(replies: Sequence[Reply], threads: int) -> Verdict:
    """All answers hold the same bits."""
    first = replies[0]
    if all((each.gradients, each.norm) == (first.gradients, first.norm) for each in replies):
        return Verdict("pass")
    how = f"from one of {threads} threads at once" if threads else "on fresh copies of the same gradients"
    return Verdict("fail", f"The same call {how} gave other bits.")
