"""An answer in one word, for claims and known deviations: what became of the gradients, or of the norm.

========================== =====================================================================================
`raises:<Name>`            the framework raised an exception of this name
`unchanged`                every included gradient came back bit for bit
`all-nan`                  every included element is NaN
`all-zero`                 every included element is zero
`sign-flipped`             every element that was not zero has the other sign
`partly-nonfinite`         some elements are NaN or infinite that were finite
`scaled`                   none of these
`norm-nan` `norm-infinite` for rules about the norm that is returned: what it is
`norm-zero` `norm-finite`
`norm-missing`             and none is returned
`norm-unreadable`          and it is not one number
========================== =====================================================================================
"""

from __future__ import annotations

import numpy as np

from gradclip_adapters.contract import DTYPES, Array

from .answers import Answer, Raised, Replied
from .case import Case, ReturnedNorm
from .measure import norm_value
from .show import float64_values

__all__ = ["behaviour_of"]


def behaviour_of(case: Case, answer: Answer) -> str:
    """The word for an answer to a case; "none" where there is no answer of the framework."""
    if isinstance(answer, Raised):
        return f"raises:{answer.kind}"
    if not isinstance(answer, Replied):
        return "none"
    if isinstance(case.expectation, ReturnedNorm):
        return _of_norm(answer.reply.norm)
    return _of_gradients(case, answer.reply.gradients)


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
    return "norm-zero" if value == 0 else "norm-finite"


def _of_gradients(case: Case, results: tuple[Array | None, ...]) -> str:
    pairs = [
        (case.gradients[i].array, results[i]) for i in case.included if i < len(results) and results[i] is not None
    ]
    if not pairs:
        return "unchanged"
    if all(given == got for given, got in pairs):
        return "unchanged"
    if any(got is not None and got.dtype not in DTYPES for _, got in pairs):
        return "scaled"
    before = np.concatenate([float64_values(given) for given, _ in pairs if given is not None])
    after = np.concatenate([float64_values(got) for _, got in pairs if got is not None])
    if before.shape != after.shape:
        return "scaled"
    if np.isnan(after).all():
        return "all-nan"
    if (after == 0).all():
        return "all-zero"
    if (~np.isfinite(after) & np.isfinite(before)).any():
        return "partly-nonfinite"
    moved = before != 0
    if moved.any() and (np.sign(after[moved]) == -np.sign(before[moved])).all():
        return "sign-flipped"
    return "scaled"
