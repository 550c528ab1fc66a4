"""Finding out whether a function returns the norm, which no signature tells.

A subject that declares `may_return_norm` is called once or twice before its cells are planned. Both calls are those of
cases. Their answers are kept for these cases, so a function that counts its calls sees none more. Because they are
ordinary calls, a function that hangs, exits or dies in the first of them costs the same as in any other.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction

from gradclip_adapters.contract import Array, Call, Gradient, Subject

from ..judge.answers import Answer, Description, Replied
from ..oracle.formats import FORMATS, round_to

__all__ = ["PROBED", "EarlyAnswers", "find_returned_norms"]

#: The feature that asks for it.
PROBED = "may_return_norm"
#: The feature that it may become.
FOUND = "returns_norm"

#: Below and above the norm of the gradients 3 and 4: some functions return it only where they clip.
THRESHOLDS = (1.0, 8.0)


class EarlyAnswers:
    """The answers to calls that were made before any cell was asked; each is given once."""

    def __init__(self) -> None:
        self._kept: list[tuple[Call, Answer]] = []

    def keep(self, call: Call, answer: Answer) -> None:
        """Keep the answer to a call."""
        self._kept.append((call, answer))

    def take(self, call: Call) -> Answer | None:
        """Return the answer to a call that was made early, the first time that it is asked for."""
        for place, (early, answer) in enumerate(self._kept):
            if early == call:
                del self._kept[place]
                return answer
        return None


def find_returned_norms(description: Description, ask: Callable[[Call], Answer], early: EarlyAnswers) -> Description:
    """Return the description with `returns_norm` where a call shows it, and without `may_return_norm`."""
    subjects = tuple(
        _settle(subject, ask, early) if PROBED in subject.features else subject for subject in description.subjects
    )
    return replace(description, subjects=subjects)


def _settle(subject: Subject, ask: Callable[[Call], Answer], early: EarlyAnswers) -> Subject:
    features = set(subject.features) - {PROBED}
    # Where neither call is answered, cases about the norm say so.
    failed = 0
    for threshold in THRESHOLDS:
        call = _call(subject, threshold)
        answer = ask(call)
        early.keep(call, answer)
        if not isinstance(answer, Replied):
            failed += 1
        elif answer.reply.norm is not None:
            features.add(FOUND)
            break
    if failed == len(THRESHOLDS):
        features.add(FOUND)
    return replace(subject, features=tuple(sorted(features)))


def _call(subject: Subject, threshold: float) -> Call:
    form = FORMATS["float32" if "float32" in subject.dtypes else subject.dtypes[0]]
    width = form.width // 8
    arrays = [Array(form.name, (1,), round_to(Fraction(value), form).to_bytes(width, "little")) for value in (3, 4)]
    gradients = tuple(Gradient(f"g{number}", array) for number, array in enumerate(arrays))
    return Call(subject.name, gradients, {"clip_norm": threshold})
