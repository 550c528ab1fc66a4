"""Check the form of a reply: the number of gradients, which of them are None, their shapes and dtypes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from gradclip_adapters.contract import DTYPES, Array, Gradient, Reply
from gradclip_reports.statuses import Status
from gradclip_reports.values import counted

from ..cases.model import Case
from ..cases.readable import readable_array
from .arrays import same_bits
from .model import Verdict

__all__ = ["broken_form", "first_changed", "rows_only"]


def broken_form(case: Case, reply: Reply) -> Verdict | None:
    """Return a failure if the form of a reply keeps it from being compared; None if its form is right."""
    given, got = len(case.gradients), len(reply.gradients)
    if given != got:
        return Verdict(Status.FAIL, f"{counted(got, 'gradient')} came back for {given}.", expected=given, observed=got)
    for i, (gradient, result) in enumerate(zip(case.gradients, reply.gradients, strict=True)):
        before = gradient.array
        if (before is None) != (result is None):
            was, became = ("None", "an array") if before is None else ("an array", "None")
            detail = f"Gradient {i} was {was} and came back as {became}."
            return Verdict(Status.FAIL, detail, observed=readable_array(result))
        if before is None or result is None:
            continue
        if before.shape != result.shape:
            detail = f"Gradient {i} had the shape {before.shape} and came back as {result.shape}."
            return Verdict(Status.FAIL, detail, expected=list(before.shape), observed=list(result.shape))
        if result.dtype not in DTYPES:
            detail = (
                f"Gradient {i} was {before.dtype} and came back as {result.dtype}, which is not a float dtype here."
            )
            return Verdict(Status.FAIL, detail, expected=before.dtype, observed=result.dtype)
    return None


def first_changed(case: Case, after: Sequence[Array | None] | None) -> int | None:
    """Return the index of the first passed gradient that has changed; None if none has, as far as is known."""
    if after is None:
        return None
    for i, gradient in enumerate(case.gradients):
        # A missing gradient has changed, too.
        now = after[i] if i < len(after) else None
        if gradient.array is not None and not same_bits(gradient.array, now, False):
            return i
    return None


def rows_only(case: Case, reply: Reply) -> Reply:
    """Return the reply with row-sparse results as rows, if they came back dense with zeros in all other rows."""
    if len(reply.gradients) != len(case.gradients):
        return reply
    pairs = zip(case.gradients, reply.gradients, strict=True)
    return replace(reply, gradients=tuple(_rows_of(gradient, got) for gradient, got in pairs))


def _rows_of(gradient: Gradient, got: Array | None) -> Array | None:
    rows, given = gradient.rows, gradient.array
    if rows is None or given is None or got is None or len(set(rows)) < len(rows) or got.dtype not in DTYPES:
        return got
    if got.shape != (gradient.height, *given.shape[1:]):
        return got
    bits = got.bits()
    others = [row for row in range(len(bits)) if row not in rows]
    return got if bits[others].any() else Array(got.dtype, given.shape, bits[list(rows)].tobytes())
