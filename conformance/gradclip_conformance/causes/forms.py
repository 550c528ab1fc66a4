"""Explain errors, results of a wrong form, wrong returned norms, and what a call does besides its results."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction

from gradclip_adapters.contract import Array, Reply
from gradclip_adapters.operations import OPERATIONS

from ..cases.model import Case
from ..judge.arrays import read_norm
from ..judge.model import Answer, Context, Died, Raised, TimedOut
from ..oracle.formats import FORMATS, Format
from ..oracle.question import get_clipping_threshold
from .facts import NORM_ERROR, AnsweredGroup, Seen, bound_norms_after_underflow, bound_power
from .laws import LAWS
from .meaning import has_nonfinite_excluded
from .model import Explanation


def explain_form(seen: Seen) -> Explanation | None:
    """Return the cause of a wrong form of the results, or None if the form is right."""
    if len(seen.results) != len(seen.case.gradients):
        return Explanation.of("count-changed")
    for gradient, got in zip(seen.case.gradients, seen.results, strict=True):
        given = gradient.array
        if (given is None) != (got is None):
            return Explanation.of("none-changed")
        if given is None or got is None:
            continue
        if given.shape != got.shape:
            shapes = {} if given.shape else {"given": "()", "got": str(got.shape)}
            return Explanation.of("shape-changed", **shapes)
        if given.dtype != got.dtype:
            return Explanation.of("dtype-changed")
    return None


def restore_form(seen: Seen) -> tuple[str, Seen] | None:
    """Return a word for the wrong form, and the same numbers in the right form, or None if numbers are lost.

    Results that only leave out None, and results of another shape with as many elements, keep all numbers.
    """
    case, results = seen.case, seen.results
    held = [gradient.array is not None for gradient in case.gradients]
    if len(results) == len(held):
        placed, effect = list(results), "shape"
    elif len(results) == sum(held) and all(one is not None for one in results):
        rest = iter(results)
        placed, effect = [next(rest) if there else None for there in held], "none dropped"
    else:
        return None
    restored: list[Array | None] = []
    for gradient, got in zip(case.gradients, placed, strict=True):
        given = gradient.array
        if given is None or got is None:
            if got is not given:
                return None
            restored.append(None)
        elif given.dtype != got.dtype or len(given.data) != len(got.data):
            return None
        else:
            restored.append(got if given.shape == got.shape else replace(got, shape=given.shape))
    return effect, replace(seen, results=restored)


def list_norms(case: Case, norm: Array | None) -> list[Explanation]:
    """Return each explanation of the norm that was returned."""
    if norm is None:
        return [Explanation.of("norm-missing")]
    try:
        value = read_norm(norm)
    except ValueError:
        return [Explanation.of("malformed")]
    seen = Seen(case, [gradient.array for gradient in case.gradients])
    if len(seen.groups) > 1:
        return []
    found = [Explanation.of("denominator-returned")] if _is_threshold(seen, value) else []
    if value == 1 and not any(group.total is not None or group.norm for group in seen.groups):
        found.append(Explanation.of("coefficient-returned"))
    if not seen.groups:
        return [*found, Explanation.predict("excluded-counted")] if _counts_only_excluded(seen, value) else found
    (group,) = seen.groups
    if group.total is not None:
        return [Explanation.of("nonfinite-silent", effect="norm")] if math.isfinite(value) else []
    if math.isinf(value) and any(group.overflows(form) for form in group.forms):
        found.append(Explanation.predict("squares-overflow", effect="norm"))
    return [*found, *_explain_finite(group, value)] if math.isfinite(value) else found


def _is_threshold(seen: Seen, value: float) -> bool:
    """Return whether a norm is the threshold, although the right one is smaller by more than rounding."""
    threshold, group = get_clipping_threshold(seen.case), next(iter(seen.groups), None)
    if group is not None and (group.total is not None or group.norm >= threshold * (1 - 2.0**-16)):
        return False
    return value == threshold > 0 or (value > 0 and math.isclose(value, threshold, rel_tol=2.0**-20))


def _counts_only_excluded(seen: Seen, value: float) -> bool:
    """Return whether a norm is that of the excluded gradients, where nothing is included."""
    norm = AnsweredGroup(seen, []).compute_norm_over(seen.excluded)
    coarsest = min((FORMATS[one.array.dtype].precision for one in seen.case.gradients if one.array), default=0)
    return bool(norm) and math.isfinite(value) and _is_close(value, norm, NORM_ERROR * 2.0**-coarsest)


def is_norm_beyond(case: Case, norm: Array | None) -> bool:
    """Return whether a returned norm is infinite, and the finite one is beyond the range of a gradient's dtype."""
    groups = Seen(case, [gradient.array for gradient in case.gradients]).groups
    if norm is None or len(groups) != 1 or groups[0].total is not None:
        return False
    try:
        value = read_norm(norm)
    except ValueError:
        return False
    return math.isinf(value) and any(groups[0].norm > form.largest for form in groups[0].forms)


def _explain_finite(group: AnsweredGroup, value: float) -> list[Explanation]:
    right, form = group.norm, group.forms[0]
    slack = NORM_ERROR * 2.0**-form.precision
    found = []
    if not _is_close(value, right, slack):
        # A norm that is as near to the right one explains nothing.
        others = (pair for pair in _list_other_norms(group) if abs(pair[1] - right) > right * Fraction(slack))
        found = [Explanation.predict(cause) for cause, norm in others if _is_close(value, norm, slack)]
    is_near = _is_close(value, right, group.errors.norm_bound * 2.0**-form.precision * 2)
    if any(group.underflows(one) and _may_be_left(group, one, value, is_near=is_near) for one in group.forms):
        found.insert(0, Explanation.predict("squares-underflow", effect="norm"))
    elif is_near:
        found.append(Explanation.predict("long-sum"))
    return list(dict.fromkeys(found))


def _list_other_norms(group: AnsweredGroup) -> Iterator[tuple[str, Fraction]]:
    """Yield the norms that a function may return instead of the right one, each with its cause."""
    right = group.norm
    if 0 <= group.threshold < right:
        yield "norm-after-clip", Fraction(group.threshold)
    if right and math.isfinite(group.threshold):
        yield "coefficient-returned", Fraction(group.threshold) / right
        yield "coefficient-returned", min(Fraction(1), Fraction(group.threshold) / right)
    for law in LAWS:
        if not law.is_of_each and (found := law.compute_norm(group)) is not None:
            yield law.cause, found


def _may_be_left(group: AnsweredGroup, form: Format, value: float, *, is_near: bool) -> bool:
    """Return whether a norm can result if some of the powers underflow.

    If a long sum may give the norm, too (`is_near`), powers must underflow that are more than its rounding errors.
    """
    low, high = bound_norms_after_underflow(group, form)
    slack, order = bound_power(form, group.seen.order), int(group.seen.order)
    if is_near and low * slack > group.norm**order:
        return False
    # The root itself may be subnormal. Then rounding changes it by up to the spacing of the subnormal numbers.
    step = form.smallest_subnormal
    return (
        low / slack <= (Fraction(value) + step) ** order
        and max(Fraction(0), Fraction(value) - step) ** order <= high * slack
    )


def _is_close(value: float, right: Fraction, relative: float) -> bool:
    return math.isfinite(relative) and abs(Fraction(value) - right) <= right * Fraction(relative)


def explain_refusal(context: Context, answer: Answer) -> Explanation | None:
    """Explain an answer that is not a result. Return None for a result."""
    if isinstance(answer, Died):
        return Explanation.of("crashes")
    if isinstance(answer, TimedOut):
        return Explanation.of("hangs")
    if not isinstance(answer, Raised):
        return None
    case = context.case
    if case.expectation.name == "surroundings-kept" and answer.disturbed:
        return Explanation.of("surroundings-changed", text=_strip_numbers(answer.disturbed[0]))
    if case.expectation.name in ("refused", "raises-on-nonfinite"):
        # The error itself is right here. The fault is that the call changed the gradients before it raised.
        return Explanation.of("inputs-changed")
    if case.options.get("error_if_nonfinite") and OPERATIONS[case.operation].is_by_norm:
        seen = Seen(case, [gradient.array for gradient in case.gradients])
        if any(group.total is None and any(group.overflows(form) for form in group.forms) for group in seen.groups):
            return Explanation.predict("squares-overflow", "refused", effect="error")
        if has_nonfinite_excluded(case) and all(group.total is None for group in seen.groups):
            return Explanation.of("excluded-counted")
    return Explanation.of("raises", error=answer.kind, text=_strip_numbers(answer.text))


def _strip_numbers(text: str) -> str:
    """Return the beginning of an error's text, with `#` in place of numbers, because they differ between calls."""
    lines = [line.strip() for line in text.splitlines() if re.search(r"[a-z]{3}", line)]
    # Some frameworks print a trace of their C++ calls before the actual message.
    told = next((line for line in lines if "Error:" in line), lines[0] if lines else "")
    return re.sub(r"[-+]?\d+(\.\d+)?(e[-+]?\d+)?", "#", told)[:80]


#: For each of these rules, the only cause that can break it. None of these rules is about the values of gradients.
ONLY = {
    "error-if-nonfinite": "error-flag-ignored",
    "error-if-nonfinite-atomic": "error-flag-ignored",
    "inputs-not-mutated": "inputs-changed",
    "no-warnings": "warns",
    "results-independent": "memory-shared",
    "shards-as-whole": "processes-differ",
    "surroundings-kept": "surroundings-changed",
}


def explain_effect(rule: str, reply: Reply) -> Explanation | None:
    """Return the cause that breaks a rule about effects, or None if the rule is about something else."""
    if rule not in ONLY:
        return None
    if rule == "inputs-not-mutated":
        return Explanation.of(ONLY[rule], effect=_say_what_inputs_hold(reply))
    texts = {
        "no-warnings": reply.warnings,
        "results-independent": reply.shared,
        "shards-as-whole": reply.apart,
        "surroundings-kept": reply.disturbed,
    }.get(rule)
    if not texts:
        return Explanation.of(ONLY[rule])
    text = _strip_numbers(texts[0])
    is_read_only = rule == "results-independent" and "cannot be written" in text
    return Explanation.of("results-read-only" if is_read_only else ONLY[rule], text=text)


def _say_what_inputs_hold(reply: Reply) -> str:
    pairs = zip(reply.inputs or (), reply.gradients, strict=False)
    return "results" if all(now == got for now, got in pairs) else "other"
