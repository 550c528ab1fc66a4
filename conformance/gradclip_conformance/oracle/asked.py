"""Define the key of what is known of a question."""

from __future__ import annotations

from gradclip_adapters.operations import GRADIENT, OPERATIONS

from .formula import PLAIN, Formula
from .model import Prediction
from .question import Question, list_norm_groups


class Asked:
    """A key for a cache, made of a question and a formula: equal keys have the same answer."""

    def __init__(self, question: Question, formula: Formula = PLAIN, neutral: Prediction | None = None) -> None:
        self.question, self.formula = question, formula
        #: The prediction by the neutral rule, if the formula is another one.
        self.neutral = neutral
        operation = OPERATIONS[question.operation]
        # The norm of all gradients of a list of one is the gradient's own norm.
        alone = operation.is_global and len(question.gradients) == 1
        self._key = (
            GRADIENT if alone else operation.group,
            operation.averaging_power,
            operation.is_relative,
            question.norm_type,
            tuple((gradient.array, gradient.need_clip, gradient.parameter) for gradient in question.gradients),
            tuple(map(tuple, list_norm_groups(question))) if operation.sums_examples else (),
            tuple(sorted(question.options.items())),
            formula,
            question.dtype,
        )
        self._hash = hash(self._key)

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Asked) and self._key == other._key
