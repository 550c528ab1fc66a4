"""Expect a repeated call to give the same bits, and an optimizer to reach the right parameters in several steps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from textwrap import indent
from typing import Any, ClassVar

from gradclip_adapters.contract import Reply
from gradclip_reports.statuses import Status

from ...cases.model import Case
from ...cases.readable import SHOWN_ELEMENTS, show_gradients
from ...oracle.arrays import decode
from ...oracle.bounds import compute_error_bounds
from ...oracle.formats import FORMATS
from ..expectation import Expectation, Part
from ..model import Answer, Context, Script, Verdict, join_lines

TWICE = """def call():
{lines}
    return results


for first, second in zip(call(), call()):
    np.testing.assert_array_equal(second, first)"""
#: Calls with two kinds of gradients alternate. Shared state shows only by chance, so the script makes many calls.
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

    def follow_up(self, case: Case, first: Answer | None) -> Case | None:
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
            how = f"made from {self.threads} threads at once, alternating with another call,"
        if self.reused:
            how = "on gradients that earlier held other numbers and were clipped with other options"
        shown = [show_gradients(each.gradients[:SHOWN_ELEMENTS]) for each in replies]
        return Verdict(Status.FAIL, f"The same call {how} gave other bits.", None, shown[0], shown[-1])

    def describe(self, case: Case) -> Sequence[Part]:
        """Describe how the call is repeated."""
        del case
        how = f"from {self.threads} threads at once" if self.threads else "again, on fresh copies of the gradients"
        return (f"the same call {how} gives the same bits",)

    def write_script(self, script: Script) -> str:
        """Return lines that make the call several times and compare the results."""
        if script.raised:
            return script.clip_lines()
        call = script.call
        if not self.threads:
            return TWICE.format(lines=indent(call.write_lines(), "    "))
        halved = join_lines(call.gradients, "gradients = [factor * gradient for gradient in gradients]")
        return IN_THREADS.format(
            lines=indent(replace(call, gradients=halved).write_lines(), "    "), threads=self.threads
        )


#: The rounding error of a clipped element, in units of roundoff. An ulp is at most two of them, and a case has at most
#: six elements.
CLIP_ROUNDINGS = Fraction(2 * compute_error_bounds(FORMATS["float64"], 2.0, 6, 1.0).clip_bound)
#: The number of roundings in a step: the decay, the sum, the product with the rate, and the difference.
STEP_ROUNDINGS = 4


@dataclass(frozen=True)
class Update(Expectation):
    """The negated parameters equal the sum of all updates, computed from the clipped gradients of one step.

    Each step subtracts the rate times the clipped gradient and the decay. The error of each step stays in the
    parameter, so the bounds of the steps add up.
    """

    name: ClassVar[str] = "update"
    gives_gradients: ClassVar[bool] = False
    #: The elements of each clipped gradient, which are exact.
    clipped: tuple[tuple[float, ...], ...]

    def judge_replies(self, context: Context, replies: Sequence[Reply]) -> Verdict:
        """Compare each parameter with the exact one."""
        case, results = context.case, replies[0].gradients
        for i, (expected, got) in enumerate(zip(self._compute_updates(case), results, strict=True)):
            if got is None:
                continue
            form = FORMATS[case.dtype]
            observed = decode(got.data, got.dtype)
            if not observed.is_finite:
                return self._fail(case, i, replies[0])
            for (exact, bound), value in zip(expected, observed.list_fractions(), strict=True):
                if abs(value - exact) > bound * Fraction(1, 2**form.precision):
                    return self._fail(case, i, replies[0])
        return Verdict(Status.PASS)

    def describe(self, case: Case) -> Sequence[Part]:
        """Return the negated parameters after the steps."""
        return ("the negated parameters after the steps:", self._show(case))

    def _fail(self, case: Case, number: int, reply: Reply) -> Verdict:
        detail = f"Parameter {number} is not what the clipped gradients, the decay and the rate give."
        return Verdict(Status.FAIL, detail, expected=self._show(case), observed=show_gradients(reply.gradients))

    def _show(self, case: Case) -> list[Any]:
        return [[float(exact) for exact, _ in elements] for elements in self._compute_updates(case)]

    def _compute_updates(self, case: Case) -> list[list[tuple[Fraction, Fraction]]]:
        """Return for each element the negated exact parameter, and its error bound in units of roundoff."""
        options = case.options
        start, decay = Fraction(options.get("start", 0.0)), Fraction(options.get("weight_decay", 0.0))
        rate, steps = Fraction(options.get("learning_rate", 1.0)), options.get("steps", 1)
        found = []
        for elements in self.clipped:
            row = []
            for element in map(Fraction, elements):
                parameter, bound = start, Fraction(0)
                for _ in range(steps):
                    step = rate * (element + decay * parameter)
                    largest = abs(parameter) + abs(rate) * (abs(element) + abs(decay * parameter))
                    bound += CLIP_ROUNDINGS * abs(rate * element) + STEP_ROUNDINGS * largest
                    parameter -= step
                row.append((-parameter, bound))
            found.append(row)
        return found
