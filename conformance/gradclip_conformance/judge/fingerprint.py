"""An answer in words, for claims and known deviations: what became of the gradients, or of the norm.

A word is short, for a claim of a documentation; where something else may hide behind it, the numbers that came back
follow after a colon, so that a pin excuses no answer that is wrong in another way.

============================ ===================================================================================
`raises:<Name>`              the framework raised an exception of this name
`unchanged`                  every gradient came back bit for bit
`all-nan`                    every included element is NaN
`all-zero`                   every included element is zero
`sign-flipped:<numbers>`     every element that was not zero has the other sign
`partly-nonfinite:<numbers>` some elements are NaN or infinite that were finite
`other:<numbers>`            none of these
`excluded-changed:<numbers>` an excluded gradient did not come back bit for bit
`other-form:<what>`          another number of gradients, another shape or dtype, or None; and the numbers
`norm-nan` `norm-infinite`   for rules about the norm that is returned: what it is
`norm-zero` `norm:<number>`
`norm-missing`               and none is returned
`norm-unreadable`            and it is not one number
`<word> then <word>`         what two calls gave, where it is not the same; an error alone, where one raised
============================ ===================================================================================

Numbers have three digits, in bfloat16 two; of more than eight there is a digest, of eight bits of each. After `other`
the judge says besides by how much the worst element is off, as a power of two of ulp.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from gradclip_adapters.contract import DTYPES, Array

from ..cases.model import Case, ReturnedNorm
from ..cases.readable import float64_values
from .answers import Answer, Raised, Replied
from .measure import norm_value, same_bits

__all__ = ["behaviour_of", "exact_behaviour"]

#: More numbers than this are told by a digest.
TOLD = 8


def behaviour_of(case: Case, answer: Answer) -> str:
    """The short word for an answer to a case, without numbers; "none" where there is no answer of the framework."""
    if isinstance(answer, Raised):
        return f"raises:{answer.kind}"
    if not isinstance(answer, Replied):
        return "none"
    if isinstance(case.expectation, ReturnedNorm):
        return _of_norm(answer.reply.norm)
    return _of_gradients(case, answer.reply.gradients)


def exact_behaviour(cases: Sequence[Case], answers: Sequence[Answer], *, through_optimizer: bool) -> str:
    """The words for the answers to a case and to what followed from it, with the numbers."""
    for answer in answers:
        if isinstance(answer, Raised):
            return f"raises:{answer.kind}"
    words = [_exact(case, answer, through_optimizer) for case, answer in zip(cases, answers, strict=False)]
    return " then ".join(dict.fromkeys(words))


def _exact(case: Case, answer: Answer, through_optimizer: bool) -> str:
    word = behaviour_of(case, answer)
    if not isinstance(answer, Replied):
        return word
    results = answer.reply.gradients
    if isinstance(case.expectation, ReturnedNorm):
        assert answer.reply.norm is not None or word == "norm-missing"
        return f"norm:{_numbers([answer.reply.norm])}" if word == "norm" else word
    if (form := _other_form(case, results)) is not None:
        return f"other-form:{form}:{_numbers(results)}"
    excluded = [(g.array, got) for g, got in zip(case.gradients, results, strict=True) if not g.need_clip]
    if any(given is not None and not same_bits(given, got, through_optimizer) for given, got in excluded):
        return f"excluded-changed:{_numbers(results)}"
    return word if word in EXACT else f"{word}:{_numbers([results[i] for i in case.included])}"


#: Words that leave nothing open.
EXACT = ("unchanged", "all-nan", "all-zero")


def _other_form(case: Case, results: Sequence[Array | None]) -> str | None:
    if len(results) != len(case.gradients):
        return f"{len(results)} for {len(case.gradients)}"
    for gradient, got in zip(case.gradients, results, strict=True):
        given = gradient.array
        if (given is None) != (got is None):
            return "None" if got is None else "not None"
        if given is not None and got is not None and (given.dtype, given.shape) != (got.dtype, got.shape):
            return got.dtype if given.dtype != got.dtype else str(got.shape)
    return None


def _numbers(arrays: Sequence[Array | None]) -> str:
    """What arrays hold, to two or three digits, or a digest of it."""
    held = [array for array in arrays if array is not None and array.dtype in DTYPES]
    values = np.concatenate([np.zeros(0), *map(float64_values, held)])
    if len(values) > TOLD:
        return hashlib.sha256(_coarse(values)).hexdigest()[:12]
    digits = 2 if any(array.dtype == "bfloat16" for array in held) else 3
    return ",".join(f"{value:.{digits}g}" for value in values)


def _coarse(values: npt.NDArray[np.float64]) -> bytes:
    mantissas, exponents = np.frexp(np.where(np.isnan(values), np.nan, values))
    return np.where(np.isfinite(values), np.round(mantissas * 2**8), values).tobytes() + exponents.tobytes()


def _of_norm(norm: Array | None) -> str:
    if norm is None:
        return "norm-missing"
    try:
        value = norm_value(norm)
    except ValueError:
        return "norm-unreadable"
    if np.isnan(value):
        return "norm-nan"
    if np.isinf(value):
        return "norm-infinite"
    return "norm-zero" if value == 0 else "norm"


def _of_gradients(case: Case, results: tuple[Array | None, ...]) -> str:
    pairs = [
        (case.gradients[i].array, results[i]) for i in case.included if i < len(results) and results[i] is not None
    ]
    if all(given == got for given, got in pairs):
        return "unchanged"
    if any(got is not None and got.dtype not in DTYPES for _, got in pairs):
        return "other"
    before = np.concatenate([float64_values(given) for given, _ in pairs if given is not None])
    after = np.concatenate([float64_values(got) for _, got in pairs if got is not None])
    if before.shape != after.shape:
        return "other"
    if np.isnan(after).all():
        return "all-nan"
    if (after == 0).all():
        return "all-zero"
    if (~np.isfinite(after) & np.isfinite(before)).any():
        return "partly-nonfinite"
    moved = before != 0
    if moved.any() and (np.sign(after[moved]) == -np.sign(before[moved])).all():
        return "sign-flipped"
    return "other"
