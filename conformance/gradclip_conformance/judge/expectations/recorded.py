"""Expect nothing: record what happens."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from gradclip_reports.statuses import Status

from ...cases.literals import NoScript
from ...cases.model import Case
from ..expectation import Expectation, Part
from ..fingerprint import observed_answer, what_happened
from ..model import Answer, Context, Script, Verdict

__all__ = ["Recorded"]


@dataclass(frozen=True)
class Recorded(Expectation):
    """The right answer is not defined: the answer is recorded and not judged."""

    name: ClassVar[str] = "recorded"
    takes_malformed: ClassVar[bool] = True

    def judge_answers(self, context: Context, answers: Sequence[Answer]) -> Verdict | None:
        """Record the answer."""
        answer = answers[0]
        detail = f"Recorded: {what_happened(context.case, answer)}"
        return Verdict(Status.UNSPECIFIED, detail, observed=observed_answer(answer))

    def describe(self, case: Case) -> Sequence[Part]:
        """Return that nothing is expected."""
        del case
        return ("nothing: nobody defines it, and what happens is recorded",)

    def write_script(self, script: Script) -> str:
        """Refuse, because no answer is wrong."""
        msg = f"The right answer to {script.case.id} is not defined, so that no script can fail."
        raise NoScript(msg)
