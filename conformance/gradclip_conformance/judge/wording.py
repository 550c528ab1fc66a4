"""What an answer was, in words and in a form that is recorded."""

from __future__ import annotations

import math
from typing import Any

from ..cases.model import Case
from ..cases.readable import SHOWN_ELEMENTS, readable_array
from .answers import Answer, Raised, Replied
from .fingerprint import behaviour_of
from .measure import Measured

__all__ = ["distance_sentence", "observed_answer", "what_happened"]

_WORDS = {
    "unchanged": "returned the gradients unchanged",
    "all-nan": "returned NaN everywhere",
    "all-zero": "returned zeros",
    "sign-flipped": "returned the gradients with the other sign",
    "partly-nonfinite": "returned NaN or infinity where the input was finite",
    "other": "returned other gradients",
}


def observed_answer(answer: Answer) -> Any:
    """An answer as it is recorded, the first elements of the first gradients."""
    if isinstance(answer, Raised):
        return {"raised": answer.kind, "text": answer.text[:500]}
    if not isinstance(answer, Replied):
        return None
    if answer.reply.malformed is not None:
        return {"malformed": answer.reply.malformed[:500]}
    shown: dict[str, Any] = {"gradients": [readable_array(array) for array in answer.reply.gradients[:SHOWN_ELEMENTS]]}
    if answer.reply.norm is not None:
        shown["norm"] = readable_array(answer.reply.norm)
    return shown


def what_happened(case: Case, answer: Answer) -> str:
    """The end of a sentence that begins with "it"."""
    if isinstance(answer, Raised):
        return f"raised {answer.kind}: {answer.text[:200]}"
    if isinstance(answer, Replied) and answer.reply.malformed is not None:
        return answer.reply.malformed[:300]
    behaviour = behaviour_of(case, answer)
    return _WORDS.get(behaviour, f"answered {behaviour}")


def distance_sentence(case: Case, found: Measured) -> str:
    """How far the worst element is from what was expected."""
    where = f"Element {found.element} of gradient {found.tensor}"
    if math.isinf(found.ulp):
        expected = "the input, which had to come back unchanged," if found.touched else "the exact result"
        return f"{where} is NaN or infinite, where {expected} is neither."
    if found.touched:
        return f"{where} is {found.ulp:.3g} ulp from the input, which had to come back unchanged."
    limit = f"the budget is {found.budget:.3g}" + (
        f", the error bound {found.bound:.3g}" if found.bound > found.budget else ""
    )
    return f"{where} is {found.ulp:.3g} ulp from the exact result of {case.operation}; {limit}."
