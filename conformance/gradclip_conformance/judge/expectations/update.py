"""Expect the parameters that an optimizer leaves: the clip comes first, then the decay and the update."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar

from gradclip_adapters.contract import Reply
from gradclip_reports.statuses import Status

from ...cases.model import Case
from ...cases.readable import shown_gradients
from ...oracle.arrays import decode
from ...oracle.formats import FORMATS
from ..expectation import Expectation, Part
from ..model import Context, Verdict

__all__ = ["Update"]

#: Roundings of a clipped element: 8.5 ulp for so few elements (see `oracle.bounds`), each up to two units of roundoff.
CLIP_ROUNDINGS = 17
#: Roundings of a step: of the decay, of the sum, of the product with the rate, of the difference.
STEP_ROUNDINGS = 4


@dataclass(frozen=True)
class Update(Expectation):
    """Minus the parameters after the steps, from the clipped gradients of one step.

    Each step subtracts the rate times the clipped gradient and the decay. An error of a step stays in the parameter, so
    that the bounds of the steps add up.
    """

    name: ClassVar[str] = "update"
    #: The elements of each clipped gradient, which are exact.
    clipped: tuple[tuple[float, ...], ...]

    def judge_replies(self, context: Context, replies: Sequence[Reply]) -> Verdict:
        """Compare each parameter with the exact one."""
        case, results = context.case, replies[0].gradients
        for i, (expected, got) in enumerate(zip(self._updates(case), results, strict=True)):
            if got is None:
                continue
            form = FORMATS[case.dtype]
            observed = decode(got.data, got.dtype)
            if not observed.is_finite:
                return self._wrong(case, i, replies[0])
            for (exact, bound), value in zip(expected, observed.fractions(), strict=True):
                if abs(value - exact) > bound * Fraction(1, 2**form.precision):
                    return self._wrong(case, i, replies[0])
        return Verdict(Status.PASS)

    def describe(self, case: Case) -> Sequence[Part]:
        """Return minus the parameters after the steps."""
        return ("minus the parameters after the steps:", self._shown(case))

    def _wrong(self, case: Case, number: int, reply: Reply) -> Verdict:
        detail = f"Parameter {number} is not what the clipped gradients, the decay and the rate give."
        return Verdict(Status.FAIL, detail, expected=self._shown(case), observed=shown_gradients(reply.gradients))

    def _shown(self, case: Case) -> list[Any]:
        return [[float(exact) for exact, _ in elements] for elements in self._updates(case)]

    def _updates(self, case: Case) -> list[list[tuple[Fraction, Fraction]]]:
        """Return, for each element: minus the exact parameter, and how many units of roundoff it may be away."""
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
