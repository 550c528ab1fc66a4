"""Describe an answer: by a short word for claims and records, and by sentences for people.

==================== =========================================================================
`raises:<Name>`      the framework raised an exception of this name
`malformed`          the framework returned something other than a list of gradients
`unchanged`          every gradient came back bit for bit
`all-nan`            every included element is NaN
`all-zero`           every included element is zero
`sign-flipped`       every element that was not zero has the other sign
`partly-nonfinite`   some elements are NaN or infinite that were finite
`other`              none of these
`norm-nan`           the norm that is returned, for rules about it; also `norm-infinite`,
                     `norm-zero`, and `norm` for any other number
`norm-missing`       no norm is returned, for rules about it
`norm-unreadable`    the norm that is returned is not a single number
`warns:<Category>`   the category of the first warning, for the rule about warnings
==================== =========================================================================
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from gradclip_adapters.contract import DTYPES, Array

from ..cases.model import Case
from ..cases.readable import SHOWN_ELEMENTS, show_array, show_gradients
from ..oracle.arrays import round_elements
from ..oracle.formats import read_all
from ..oracle.model import ExpectedArray
from ..oracle.predict import predict
from .arrays import read_norm
from .model import Answer, Raised, Replied

_SENTENCES = {
    "unchanged": "returned the gradients unchanged",
    "all-nan": "returned NaN everywhere",
    "all-zero": "returned zeros",
    "sign-flipped": "returned the gradients with the other sign",
    "partly-nonfinite": "returned NaN or infinity where the input was finite",
    "other": "returned other gradients",
}


def describe_behaviour(case: Case, answer: Answer, about: str = "gradients") -> str:
    """Return the short word for an answer, or "none" if the framework gave no answer.

    `about` is the part of the answer that the word describes: "gradients", "norm" or "warnings".
    """
    if isinstance(answer, Raised):
        return f"raises:{answer.kind}"
    if not isinstance(answer, Replied):
        return "none"
    if answer.reply.malformed is not None:
        return "malformed"
    if about == "norm":
        return _describe_norm(answer.reply.norm)
    if about == "warnings":
        return f"warns:{answer.reply.warnings[0].partition(':')[0]}" if answer.reply.warnings else "no-warning"
    return _describe_gradients(case, answer.reply.gradients)


def _describe_norm(norm: Array | None) -> str:
    if norm is None:
        return "norm-missing"
    try:
        value = read_norm(norm)
    except ValueError:
        return "norm-unreadable"
    if np.isnan(value):
        return "norm-nan"
    if np.isinf(value):
        return "norm-infinite"
    return "norm-zero" if value == 0 else "norm"


def _describe_gradients(case: Case, results: tuple[Array | None, ...]) -> str:
    pairs = [
        (case.gradients[i].array, results[i]) for i in case.included if i < len(results) and results[i] is not None
    ]
    if all(given == got for given, got in pairs):
        return "unchanged"
    if any(got is not None and got.dtype not in DTYPES for _, got in pairs):
        return "other"
    before = read_all(given for given, _ in pairs if given is not None)
    after = read_all(got for _, got in pairs if got is not None)
    if before.shape != after.shape:
        return "other"
    if np.isnan(after).all():
        return "all-nan"
    if (after == 0).all():
        return "all-zero"
    if (np.isfinite(before) & ~np.isfinite(after)).any():
        return "partly-nonfinite"
    return "sign-flipped" if _have_flipped_signs(before, after) else "other"


def _have_flipped_signs(before: npt.NDArray[np.float64], after: npt.NDArray[np.float64]) -> bool:
    """Return whether each element that was not zero has the other sign, and whether there is such an element."""
    first = int((before != 0).argmax())
    # Most answers have the sign of the first element, so the others need no look.
    if not min(before[first], after[first]) < 0 < max(before[first], after[first]):
        return False
    flipped = ((before < 0) & (after > 0)) | ((before > 0) & (after < 0))
    return np.array_equal(flipped, before != 0)


def show_answer(answer: Answer) -> Any:
    """Return an answer as a record shows it: the first elements of the first gradients."""
    if isinstance(answer, Raised):
        return {"raised": answer.kind, "text": answer.text[:500]}
    if not isinstance(answer, Replied):
        return None
    if answer.reply.malformed is not None:
        return {"malformed": answer.reply.malformed[:500]}
    shown = show_gradients(answer.reply.gradients[:SHOWN_ELEMENTS])
    if answer.reply.norm is not None:
        shown["norm"] = show_array(answer.reply.norm)
    return shown


def describe_what_happened(case: Case, answer: Answer) -> str:
    """Return what the framework did, as the end of a sentence that begins with "the call"."""
    if isinstance(answer, Raised):
        return f"raised {answer.kind}: {answer.text[:200]}"
    if isinstance(answer, Replied) and answer.reply.malformed is not None:
        return answer.reply.malformed[:300]
    behaviour = describe_behaviour(case, answer)
    return _SENTENCES.get(behaviour, f"answered {behaviour}")


def show_expected_arrays(case: Case) -> list[Any]:
    """Return the first expected gradients in readable form, their first elements rounded once to the dtype."""
    pairs = zip(case.gradients[:SHOWN_ELEMENTS], predict(case).gradients, strict=False)
    return [_show_expected_array(gradient.array, expected) for gradient, expected in pairs]


def _show_expected_array(given: Array | None, expected: ExpectedArray | None) -> Any:
    if given is None or expected is None:
        return None
    first = expected.take_places(range(len(expected.values))[:SHOWN_ELEMENTS])
    shown = show_array(Array(given.dtype, (len(first.values),), round_elements(first, given.dtype)))
    shown["shape"] = list(given.shape)
    if len(expected.values) > SHOWN_ELEMENTS:
        shown["elements"] = len(expected.values)
    return shown


def describe_results(case: Case, what: str) -> tuple[list[Any], str]:
    """Return the expected gradients, and a sentence with the distance that is allowed."""
    bound = f"scaled elements within {predict(case).widest.clip_budget:g} ulp"
    return show_expected_arrays(case), f"{what}; {bound}"


def describe_distance_between_calls(case: Case, *, exact: bool = False) -> str:
    """Return a sentence about the allowed distance between results of two calls. `exact` requires equal results."""
    errors = predict(case).widest
    budget, bound = 0.0 if exact else 2 * errors.clip_budget, 2 * errors.clip_bound
    if bound == 0:
        return "No element may differ."
    return (
        f"Elements that are at most {budget:g} ulp apart pass; more than {bound:g} ulp, twice the error bound, fails."
    )
