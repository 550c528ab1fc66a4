"""The same call by itself and inside the framework's compiler: a compiler may round otherwise, and nothing else.

Each of the two answers is within the error of the arithmetic (see `errors`) of the exact result, so that the two are at
most twice as far apart. A clip by value rounds nothing, and neither does what is done to a zero, to a gradient whose
norm is not finite, or to one that is excluded: there the two are equal.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction

import numpy as np

from gradclip_adapters.contract import Array, Reply

from ..cases.model import Case
from ..cases.readable import readable_array
from ..oracle.distances import distances
from ..oracle.formats import decode, to_doubles
from ..oracle.model import Expected
from ..oracle.predict import narrowest, norm_bound, norm_budget, predict
from .answers import Answer, Raised
from .context import Context
from .form import broken_form
from .measure import as_dtype, norm_distance, norm_value, same_bits
from .verdict import Verdict
from .wording import observed_answer, what_happened

__all__ = ["WHAT_IS_EXACT", "compiled_agrees", "raised_alike"]

WHAT_IS_EXACT = "NaN, infinities and what comes of zeros must be the same, excluded gradients bit for bit."


def raised_alike(case: Case, answers: Sequence[Answer]) -> Verdict:
    """Two answers of which one raised at least: both must have."""
    if all(isinstance(each, Raised) for each in answers):
        return Verdict("pass", observed=observed_answer(answers[0]))
    alone, compiled = answers
    detail = f"By itself it {what_happened(case, alone)}; compiled it {what_happened(case, compiled)}."
    return Verdict("fail", detail, expected=observed_answer(alone), observed=observed_answer(compiled))


def compiled_agrees(context: Context, alone: Reply, compiled: Reply) -> Verdict:
    """Whether the compiled call's answer is that of the call by itself."""
    case = context.case
    shown = [{"gradients": [readable_array(array) for array in reply.gradients]} for reply in (alone, compiled)]
    if (broken := broken_form(case, compiled)) is not None:
        return Verdict("fail", f"Compiled: {broken.detail}", expected=shown[0], observed=broken.observed)
    found = [
        _gradient(context, i, *pair) for i, pair in enumerate(zip(alone.gradients, compiled.gradients, strict=True))
    ]
    found.append(_norm(case, alone.norm, compiled.norm))
    worst = max(found, key=lambda one: (("pass", "quality", "fail").index(one.status), one.ulp or 0.0))
    if worst.status == "pass":
        return worst
    return Verdict(worst.status, worst.detail, worst.ulp, worst.expected or shown[0], worst.observed or shown[1])


def _gradient(context: Context, index: int, alone: Array | None, compiled: Array | None) -> Verdict:
    case = context.case
    given = case.gradients[index].array
    if given is None or alone is None or compiled is None:
        return Verdict("pass")
    if alone.dtype != compiled.dtype:
        return Verdict("fail", f"Gradient {index} is {alone.dtype} by itself, and compiled {compiled.dtype}.")
    if index not in case.included:
        if same_bits(alone, compiled, context.through_optimizer):
            return Verdict("pass")
        return Verdict("fail", f"Gradient {index} is excluded, and compiled it is not what it is by itself.")
    one, other = (as_dtype(array, given.dtype) for array in (alone, compiled))
    every = distances(other, Expected(decode(one, given.dtype)), given.dtype)
    every[(to_doubles(given.data, given.dtype) == 0) & (every > 0)] = math.inf
    if not len(every):
        return Verdict("pass")
    place = int(np.argmax(every))
    errors = predict(case).errors[index]
    return _graded(f"Element {place} of gradient {index}", float(every[place]), errors.clip_budget, errors.clip_bound)


def _norm(case: Case, alone: Array | None, compiled: Array | None) -> Verdict:
    if alone is None and compiled is None:
        return Verdict("pass")
    if alone is None or compiled is None:
        which = "by itself" if compiled is None else "compiled"
        return Verdict("fail", f"A norm was returned {which} only.")
    expected, observed = ({"norm": readable_array(array)} for array in (alone, compiled))
    try:
        value, other = norm_value(alone), norm_value(compiled)
    except ValueError as error:
        return Verdict("fail", f"{str(error).capitalize()}.", expected=expected, observed=observed)
    if value == other or (math.isnan(value) and math.isnan(other)):
        return Verdict("pass")
    apart = norm_distance(compiled, Fraction(value), narrowest(case)) if math.isfinite(value) else math.inf
    found = _graded("The norm that is returned", apart, norm_budget(case), norm_bound(case))
    return Verdict(found.status, found.detail, found.ulp, expected, observed)


def _graded(what: str, apart: float, budget: float, bound: float) -> Verdict:
    if apart <= 2 * budget:
        return Verdict("pass", ulp=apart)
    detail = (
        f"{what} is {apart:.3g} ulp from what it is by itself; the budget is {2 * budget:.3g}, twice the error bound "
        f"{2 * bound:.3g}."
    )
    return Verdict("quality" if apart <= 2 * bound else "fail", detail, apart)
