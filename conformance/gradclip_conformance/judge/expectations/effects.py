"""Expect errors, unchanged gradients, or no side effects. Side effects are shared memory, changed state or warnings."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from textwrap import indent
from typing import ClassVar

from gradclip_adapters.contract import Reply
from gradclip_reports.statuses import Status

from ...cases.model import Case
from ...cases.readable import show_array
from ...oracle.question import get_clipping_threshold
from ..expectation import Expectation, Part, find_first_changed, list_changed, may_raise
from ..fingerprint import describe_results, describe_what_happened, show_answer
from ..model import NOT_READ_BACK, Answer, Context, Raised, Script, Verdict, join_lines
from ..script_lines import assert_equal, list_inputs

MAY_BE_REFUSED = """try:
{clip}
except Exception:
    pass  # An error is right, too, if the gradients stay as they were."""


def _judge_unchanged(case: Case, answer: Raised) -> Verdict:
    """Judge whether a call that raised has left its gradients unchanged."""
    changed = find_first_changed(case, answer.inputs)
    if changed is None:
        return Verdict(Status.PASS)
    detail = f"The call raised {answer.kind}, but it had already changed gradient {changed}."
    return Verdict(Status.FAIL, detail, expected="unchanged gradients", observed=show_answer(answer))


class _ErrorIsDue(Expectation):
    """The call raises an error."""

    #: Whether the gradients must be unchanged after the error.
    atomic: bool = True

    def explain(self, case: Case) -> str:
        """Return the beginning of a sentence that says why an error is due."""
        raise NotImplementedError

    def judge_answers(self, context: Context, answers: Sequence[Answer]) -> Verdict | None:
        """Judge the error. A call that returns without an error fails."""
        case, answer = context.case, answers[0]
        if isinstance(answer, Raised):
            return _judge_unchanged(case, answer) if self.atomic else Verdict(Status.PASS)
        detail = f"{self.explain(case)}, but the call {describe_what_happened(case, answer)}."
        return Verdict(Status.FAIL, detail, expected="an error", observed=show_answer(answer))

    def describe(self, case: Case) -> Sequence[Part]:
        """Return that an error is expected."""
        del case
        return ("an error" + (", and unchanged gradients" if self.atomic else ""),)

    def write_script(self, script: Script) -> str:
        """Return lines that fail if there is no error, or if the gradients have changed."""
        call = script.call
        if not (script.raised and self.atomic):
            return call.expect_error()
        every = range(len(script.case.gradients))
        return call.expect_error(join_lines(call.inputs, assert_equal(list_inputs(script.case, every))))


@dataclass(frozen=True)
class Refused(_ErrorIsDue):
    """The call raises an error before it changes anything, because an argument is invalid."""

    name: ClassVar[str] = "refused"
    judges_elements: ClassVar[bool] = True

    def explain(self, case: Case) -> str:
        """Name the threshold."""
        return f"A threshold of {get_clipping_threshold(case)} must be refused with an error"


@dataclass(frozen=True)
class RaisesOnNonfinite(_ErrorIsDue):
    """The call raises an error. If `atomic` is set, it raises before it changes anything."""

    name: ClassVar[str] = "raises-on-nonfinite"
    rule: ClassVar[str] = "error-if-nonfinite"
    judges_elements: ClassVar[bool] = True
    atomic: bool = False

    def explain(self, case: Case) -> str:
        """Name the option that asks for the error."""
        del case
        return "`error_if_nonfinite` was set and the norm is not finite"


@dataclass(frozen=True)
class InputsKept(Expectation):
    """The call leaves the gradients that it gets as they are."""

    name: ClassVar[str] = "inputs-kept"
    rule: ClassVar[str] = "inputs-not-mutated"
    #: The gradients that must stay as they are. If this is empty, all must.
    indices: tuple[int, ...] = ()

    def judge_answers(self, context: Context, answers: Sequence[Answer]) -> Verdict | None:
        """Let an error pass if the dtype cannot hold the norm, and the call changed nothing."""
        if isinstance(answers[0], Raised) and may_raise(context):
            return _judge_unchanged(context.case, answers[0])
        return None

    def judge_replies(self, context: Context, replies: Sequence[Reply]) -> Verdict:
        """Compare the gradients before and after the call."""
        case, after = context.case, replies[0].inputs
        if after is None:
            return NOT_READ_BACK
        judged = self.indices or range(len(case.gradients))
        changed = next((i for i in list_changed(case, after) if i in judged), None)
        if changed is None:
            return Verdict(Status.PASS)
        expected = show_array(case.gradients[changed].array)
        observed = show_array(after[changed]) if changed < len(after) else None
        detail = f"The call changed gradient {changed}, which was passed to it."
        return Verdict(Status.FAIL, detail, None, expected, observed)

    def describe(self, case: Case) -> Sequence[Part]:
        """Return the expected results. The caller's gradients must stay as they were."""
        return describe_results(case, type(self).__name__)

    def write_script(self, script: Script) -> str:
        """Return lines that compare the gradients before and after the call."""
        judged = self.indices or range(len(script.case.gradients))
        call, kept = script.call, assert_equal(list_inputs(script.case, judged))
        if script.refused_rightly:
            clip = MAY_BE_REFUSED.format(clip=indent(call.clip, "    "))
            return join_lines(call.gradients, clip, call.inputs, kept)
        return join_lines(script.clip_lines(), call.inputs, kept)


@dataclass(frozen=True)
class NoSharedMemory(Expectation):
    """Each result has its own memory, or the memory of its gradient, and can be written."""

    name: ClassVar[str] = "no-shared-memory"
    says: ClassVar[str] = (
        "results that share memory neither with each other nor with other gradients, and can be written"
    )
    rule: ClassVar[str] = "results-independent"

    def judge_replies(self, context: Context, replies: Sequence[Reply]) -> Verdict:
        """Judge the side effects that the adapter has seen."""
        del context
        shared = replies[0].shared
        if shared is None:
            return Verdict(Status.UNSUPPORTED, "The adapter does not look at the memory of results.")
        return Verdict(Status.FAIL, f"The call {shared[0]}.") if shared else Verdict(Status.PASS)


@dataclass(frozen=True)
class ProcessesAgree(Expectation):
    """All processes get the same copies and the same norm."""

    name: ClassVar[str] = "processes-agree"
    says: ClassVar[str] = "the same norm, and the same copies of gradients, in all processes"
    rule: ClassVar[str] = "shards-as-whole"

    def judge_replies(self, context: Context, replies: Sequence[Reply]) -> Verdict:
        """Judge the differences that the adapter has seen."""
        del context
        apart = replies[0].apart
        if apart is None:
            return Verdict(Status.UNSUPPORTED, "The adapter does not compare the answers of the processes.")
        if not apart:
            return Verdict(Status.PASS)
        return Verdict(Status.FAIL, f"The call {apart[0]}.", observed={"apart": [*apart]})

    def write_script(self, script: Script) -> str:
        """Return lines that fail if the adapter has seen a difference."""
        seen = 'assert not reply.apart, f"expected: no difference; it {reply.apart[0]}"'
        return join_lines(script.clip_lines(), seen)


@dataclass(frozen=True)
class SurroundingsKept(Expectation):
    """The caller's list, NumPy's error and random state, and the environment are as they were."""

    name: ClassVar[str] = "surroundings-kept"
    says: ClassVar[str] = "the caller's list, NumPy's error state, random states and the environment as they were"
    rule: ClassVar[str] = "surroundings-kept"

    def judge_answers(self, context: Context, answers: Sequence[Answer]) -> Verdict | None:
        """Judge what an error that is due leaves behind."""
        case, answer = context.case, answers[0]
        is_due = get_clipping_threshold(case) < 0 or case.options.get("error_if_nonfinite")
        return self._judge(answer.disturbed) if isinstance(answer, Raised) and is_due else None

    def judge_replies(self, context: Context, replies: Sequence[Reply]) -> Verdict:
        """Judge the changes that the host and the adapter have seen."""
        del context
        return self._judge(replies[0].disturbed)

    def _judge(self, disturbed: Sequence[str] | None) -> Verdict:
        if disturbed is None:
            return Verdict(Status.UNSUPPORTED, "The adapter does not look at the state around a call.")
        if not disturbed:
            return Verdict(Status.PASS)
        return Verdict(Status.FAIL, f"The call has changed {', '.join(disturbed)}.", observed={"changed": [*disturbed]})


@dataclass(frozen=True)
class NoWarnings(Expectation):
    """An ordinary call issues no warning."""

    name: ClassVar[str] = "no-warnings"
    says: ClassVar[str] = "no warning"
    rule: ClassVar[str] = "no-warnings"
    about: ClassVar[str] = "warnings"

    def judge_replies(self, context: Context, replies: Sequence[Reply]) -> Verdict:
        """Judge the warnings that the adapter has caught."""
        del context
        if not replies[0].warnings:
            return Verdict(Status.PASS)
        detail = f"The call issued a warning: {replies[0].warnings[0][:300]}"
        return Verdict(Status.FAIL, detail, observed={"warnings": [text[:300] for text in replies[0].warnings[:3]]})
