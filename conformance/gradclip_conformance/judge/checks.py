"""What each expectation of a case asks of its answers: the kinds in `case`, led to the modules that look at them."""

from __future__ import annotations

from collections.abc import Sequence

from ..cases.model import (
    CompiledAgrees,
    InputsKept,
    InputsWritten,
    Metamorphic,
    NotSilent,
    RaisesOnNonfinite,
    Recorded,
    Refused,
    Repeatable,
    ReturnedNorm,
    Structure,
    Untouched,
    Values,
)
from ..oracle.formats import FORMATS
from ..oracle.predict import narrowest, predict
from . import compiled, effects, form, relations
from . import values as element_values
from .answers import Answer, Raised, Replied
from .context import Context
from .measure import expected_arrays
from .verdict import Verdict
from .wording import observed_answer, what_happened

__all__ = ["check"]


def check(context: Context, answers: Sequence[Answer]) -> Verdict:
    """Hold the answers to a case against its expectation: `pass`, `quality`, `fail`, `unspecified` or `unsupported`."""
    case, answer = context.case, answers[0]
    if isinstance(case.expectation, Recorded):
        return Verdict("unspecified", f"Recorded: {what_happened(case, answer)}", observed=observed_answer(answer))
    for each in answers:
        if isinstance(each, Replied) and each.reply.malformed is not None:
            detail = f"A list of clipped gradients or an error was expected, and it {what_happened(case, each)}."
            return Verdict("fail", detail, observed=observed_answer(each))
    match case.expectation:
        case Refused():
            return effects.refused(case, answer)
        case RaisesOnNonfinite(atomic):
            return effects.raises_on_nonfinite(case, answer, atomic)
        case CompiledAgrees() if any(isinstance(each, Raised) for each in answers):
            return compiled.raised_alike(case, answers)
        case Values(leaves_range=True) if isinstance(answer, Raised) and _may_raise(context):
            detail = f"The exact result exists, and it {what_happened(case, answer)}."
            return Verdict("quality", detail, observed=observed_answer(answer))
        case ReturnedNorm() if isinstance(answer, Raised) and _may_raise(context):
            return Verdict("pass", observed=observed_answer(answer))
        case InputsKept() if isinstance(answer, Raised) and _may_raise(context):
            return effects.nothing_changed(case, answer)
        case InputsWritten() if isinstance(answer, Raised) and _may_raise(context):
            return Verdict("pass", observed=observed_answer(answer))
        case NotSilent() if isinstance(answer, Raised) and "error_if_nonfinite" not in context.subject.features:
            return Verdict("pass", observed=observed_answer(answer))
    for each in answers:
        if not isinstance(each, Replied):
            expected = {"gradients": expected_arrays(case, predict(case).gradients)}
            detail = f"A result was expected, and it {what_happened(case, each)}."
            return Verdict("fail", detail, expected=expected, observed=observed_answer(each))
    replies = [form.rows_only(case, each.reply) for each in answers if isinstance(each, Replied)]
    if (broken := form.broken_form(case, replies[0])) is not None:
        return broken
    match case.expectation:
        case Values() as values:
            return element_values.values(context, values, replies[0].gradients)
        case ReturnedNorm() as returned:
            return element_values.returned_norm(case, returned, replies[0])
        case Untouched(indices):
            return element_values.untouched(context, indices, replies[0])
        case NotSilent():
            return element_values.not_silent(context, replies[0])
        case Structure(aspect):
            return form.structure(case, aspect, replies[0])
        case InputsKept():
            return effects.inputs_kept(case, replies[0])
        case InputsWritten():
            return effects.inputs_written(context, replies[0])
        case Repeatable() as repeated:
            return effects.repeatable(replies, repeated)
        case CompiledAgrees():
            return compiled.compiled_agrees(context, replies[0], replies[1])
        case Metamorphic():
            return relations.check_relation(context, replies)
    msg = f"no check for the expectation {case.expectation!r}"
    raise TypeError(msg)


def _may_raise(context: Context) -> bool:
    """Whether the norm is none that the dtype holds, and no option says when that is an error."""
    bounds = predict(context.case).norms[0]
    held = bounds is not None and bounds.upper <= FORMATS[narrowest(context.case)].largest
    return not held and "error_if_nonfinite" not in context.subject.features
