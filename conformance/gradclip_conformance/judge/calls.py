"""Define the calls of one case with their answers, as the judge and the models of causes see them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from gradclip_adapters.contract import Reply

from ..cases.model import Case
from .expectation import Expectation, find_first_changed, resolve, take_rows
from .fingerprint import describe_behaviour
from .model import Answer, Context, Raised, Replied


@dataclass(frozen=True)
class Calls:
    """One or two calls under one rule, with the answers to them."""

    context: Context
    answers: Sequence[Answer]

    @cached_property
    def expectation(self) -> Expectation:
        """What the rule expects of the answers."""
        return resolve(self.context.case.expectation)

    @cached_property
    def cases(self) -> tuple[Case, ...]:
        """The case, and the second call if the rule makes one."""
        case = self.context.case
        following = self.expectation.follow_up(case, self.answers[0])
        return (case,) if following is None else (case, following)

    @cached_property
    def replies(self) -> list[Reply]:
        """The replies, with dense results of row-sparse gradients cut to their rows. Errors are left out."""
        case = self.context.case
        return [take_rows(case, answer.reply) for answer in self.answers if isinstance(answer, Replied)]

    @property
    def are_answered(self) -> bool:
        """Whether a reply came to each call."""
        return len(self.cases) == len(self.replies) == len(self.answers)

    @property
    def changed_before_error(self) -> bool:
        """Whether a call raised after it had changed its gradients.

        Gradients that were used before hold other elements if an earlier call has raised.
        """
        case = self.context.case
        return "reused" not in case.options and any(
            find_first_changed(case, answer.inputs) is not None for answer in self.answers if isinstance(answer, Raised)
        )

    @cached_property
    def behaviour(self) -> str:
        """The short word for the first answer, or for the last one if that is an error."""
        telling = self.answers[-1] if isinstance(self.answers[-1], Raised) else self.answers[0]
        return describe_behaviour(self.context.case, telling, self.expectation.about)
