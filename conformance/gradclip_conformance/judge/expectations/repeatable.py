"""Expect the same call to give the same bits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from textwrap import indent
from typing import ClassVar

from gradclip_adapters.contract import Reply
from gradclip_reports.statuses import Status

from ...cases.model import Case
from ...cases.readable import SHOWN_ELEMENTS, shown_gradients
from ..expectation import Expectation, Part
from ..model import Answer, Context, Script, Verdict, join_lines

__all__ = ["Repeatable"]

TWICE = """def call():
{lines}
    return results


for first, second in zip(call(), call()):
    np.testing.assert_array_equal(second, first)"""
#: Every other thread makes another call. Wrongly shared state shows only by chance, so that there are many calls.
IN_THREADS = """def call(factor):
{lines}
    return results


alone = {{factor: call(factor) for factor in (1.0, 0.5)}}


def again(factor):
    for first, second in zip(alone[factor], call(factor)):
        np.testing.assert_array_equal(second, first)


sys.setswitchinterval(1e-6)
with ThreadPoolExecutor({threads}) as pool:
    list(pool.map(again, [1.0, 0.5] * 2000))"""


@dataclass(frozen=True)
class Repeatable(Expectation):
    """The same call, repeated on fresh copies, gives the same bits.

    `threads`: the number of threads that call at once. `reused`: the tensors were used in other calls before.
    """

    name: ClassVar[str] = "repeatable"
    threads: int = 0
    reused: bool = False

    def follow_up(self, case: Case, first: Answer) -> Case | None:
        """Return the same call, with the options for threads or reuse."""
        del first
        how = {"threads": self.threads, "reused": self.reused}
        return replace(case, options={**case.options, **{name: value for name, value in how.items() if value}})

    def judge_replies(self, context: Context, replies: Sequence[Reply]) -> Verdict:
        """Compare the bits of all replies."""
        del context
        first = replies[0]
        if all((each.gradients, each.norm) == (first.gradients, first.norm) for each in replies):
            return Verdict(Status.PASS)
        how = "on fresh copies of the same gradients"
        if self.threads:
            how = f"from one of {self.threads} threads at once, of which every other one makes another call,"
        if self.reused:
            how = "on gradients that held other numbers, and were clipped with other options, before"
        shown = [shown_gradients(each.gradients[:SHOWN_ELEMENTS]) for each in replies]
        return Verdict(Status.FAIL, f"The same call {how} gave other bits.", None, shown[0], shown[-1])

    def describe(self, case: Case) -> Sequence[Part]:
        """Return how the call is repeated."""
        del case
        how = f"from {self.threads} threads at once" if self.threads else "again, on fresh copies of the gradients"
        return (f"the same call {how} gives the same bits",)

    def write_script(self, script: Script) -> str:
        """Return lines that make the call several times, and compare the results."""
        if script.raised:
            return script.clip_lines()
        call = script.call
        if not self.threads:
            return TWICE.format(lines=indent(call.lines(), "    "))
        halved = join_lines(call.gradients, "gradients = [factor * gradient for gradient in gradients]")
        return IN_THREADS.format(lines=indent(replace(call, gradients=halved).lines(), "    "), threads=self.threads)
