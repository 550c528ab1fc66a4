"""Find out whether a function returns the norm, which its signature does not show.

A subject that declares `may_return_norm` is called once or twice before its cells are planned. Two cases make the same
calls, and get these answers, so that the function gets no additional calls. A hang, an exit or a crash here has the
same effect as in any other call.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction

from gradclip_adapters.contract import Array, Call, Gradient, Subject

from ..judge.model import Answer, Description, Replied
from ..oracle.formats import FORMATS, round_to

__all__ = ["PROBED", "EarlyAnswers", "find_returned_norms"]

#: The feature that asks for it.
PROBED = "may_return_norm"
#: The feature that it may become.
FOUND = "returns_norm"

#: Below and above 5, the norm of the gradients 3 and 4: some functions return the norm only if they clip.
THRESHOLDS = (1.0, 8.0)


class EarlyAnswers:
    """The answers to calls that were made before the cells; each is given out once."""

    def __init__(self) -> None:
        self._kept: list[tuple[Call, Answer]] = []

    def keep(self, call: Call, answer: Answer) -> None:
        """Keep the answer to a call."""
        self._kept.append((call, answer))

    def take(self, call: Call) -> Answer | None:
        """Return the kept answer to a call, and forget it; None if there is none."""
        for place, (early, answer) in enumerate(self._kept):
            if early == call:
                del self._kept[place]
                return answer
        return None


def find_returned_norms(description: Description, ask: Callable[[Call], Answer], early: EarlyAnswers) -> Description:
    """Return the description with `returns_norm`, if a call shows that, in the place of `may_return_norm`."""
    subjects = tuple(
        _settle(subject, ask, early) if PROBED in subject.features else subject for subject in description.subjects
    )
    return replace(description, subjects=subjects)


def _settle(subject: Subject, ask: Callable[[Call], Answer], early: EarlyAnswers) -> Subject:
    features = set(subject.features) - {PROBED}
    # If neither call is answered, the cases about the norm report that.
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
