"""Expect results in the form of the gradients. Or expect nothing, because no document defines the answer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from gradclip_adapters.contract import EntryPoint, Reply
from gradclip_reports.statuses import Status

from ...cases.literals import NoScript
from ...cases.model import Case
from ..expectation import Expectation, Part
from ..fingerprint import describe_results, describe_what_happened, show_answer
from ..model import Answer, Context, Script, Verdict, join_lines


@dataclass(frozen=True)
class Structure(Expectation):
    """One aspect of the form of the results is kept: "count", "none", "dtype" or "shape"."""

    name: ClassVar[str] = "structure"
    needs_numbers: ClassVar[bool] = False
    aspect: str

    def judge_replies(self, context: Context, replies: Sequence[Reply]) -> Verdict:
        """Compare the dtypes. Every case checks the other aspects."""
        if self.aspect != "dtype":
            return Verdict(Status.PASS)
        for i, (gradient, got) in enumerate(zip(context.case.gradients, replies[0].gradients, strict=True)):
            given = gradient.array
            if given is not None and got is not None and given.dtype != got.dtype:
                detail = f"Gradient {i} was {given.dtype} and came back as {got.dtype}."
                return Verdict(Status.FAIL, detail, expected=given.dtype, observed=got.dtype)
        return Verdict(Status.PASS)

    def describe(self, case: Case) -> Sequence[Part]:
        """Return the results, whose form is judged."""
        return describe_results(case, type(self).__name__)

    def write_script(self, script: Script) -> str:
        """Return lines that compare the form of the results with that of the gradients."""
        return join_lines(script.clip_lines(), _assert_form(script.case, self.aspect, script.entry_point))


def _assert_form(case: Case, aspect: str, entry_point: EntryPoint) -> str:
    arrays = [gradient.array for gradient in case.gradients]
    # An optimizer does not change a parameter without a gradient.
    nothing = [1] if "optimizer" in entry_point.features else None
    if aspect == "dtype":
        expected: list[Any] = [None if array is None else array.dtype for array in arrays]
        form, agrees = "str(result.dtype)", "all(name in text for name, text in zip(expected, observed))"
    else:
        expected = [nothing if array is None else list(array.shape) for array in arrays]
        form, agrees = "list(result.shape)", "observed == expected"
    if None in expected:
        form = f"None if result is None else {form}"
    # Check the shapes first: a result of another shape may have no dtype.
    first = _assert_form(case, "shape", entry_point) + "\n" if aspect == "dtype" else ""
    return first + (
        f"expected = {expected}\nobserved = [{form} for result in results]\n"
        f'assert {agrees}, f"expected: {{expected}}; observed: {{observed}}"'
    )


@dataclass(frozen=True)
class Recorded(Expectation):
    """No document defines the right answer, so the answer is recorded and not judged."""

    name: ClassVar[str] = "recorded"
    says: ClassVar[str] = "nothing: the answer is not defined, and is recorded"
    judges_elements: ClassVar[bool] = True
    takes_malformed: ClassVar[bool] = True

    def judge_answers(self, context: Context, answers: Sequence[Answer]) -> Verdict | None:
        """Record the answer."""
        answer = answers[0]
        detail = f"Recorded: {describe_what_happened(context.case, answer)}"
        return Verdict(Status.UNSPECIFIED, detail, observed=show_answer(answer))

    def write_script(self, script: Script) -> str:
        """Refuse, because no answer is wrong."""
        msg = f"The right answer to {script.case.id} is not defined, so that no script can fail."
        raise NoScript(msg)
