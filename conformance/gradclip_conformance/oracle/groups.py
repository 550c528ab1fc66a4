"""Define a group of gradients that share a norm, and all that a call asks of it.

The exact oracles and the quick measurement compute the norm, each in its own arithmetic. What they must agree on is
here: the members, the format in which norm and threshold are compared, the divisor of an average, the number that
multiplies the threshold, and the error bounds.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np

from gradclip_adapters.contract import Array
from gradclip_adapters.operations import OPERATIONS

from . import integers
from .arrays import decode
from .bounds import add_parameter_errors, compute_error_bounds
from .formats import FORMATS, Format, read_float64_values
from .model import DyadicArray, Enclosure, ErrorBounds
from .question import Question, compute_layer_share, count_divisor, find_narrowest, get_clipping_threshold


def count_terms(tensors: Sequence[DyadicArray]) -> int:
    """Return the number of nonzero terms of a sum over tensors. Adding a zero is exact."""
    return sum(len(tensor) - tensor.integers.count(0) for tensor in tensors)


@dataclass(frozen=True)
class Group:
    """Gradients that share a norm."""

    question: Question
    #: The indices of the gradients.
    members: tuple[int, ...]
    #: The format in which the norm and the threshold are compared: that of the only member, or the narrowest one.
    form: Format
    #: The number that divides the sum of powers, if the norm is an average. Otherwise 1.
    divisor: int
    #: The parameter whose norm multiplies the threshold, for a unit.
    parameter: Array | None = None
    #: The square of the part of the threshold that belongs to a layer.
    share: Fraction | None = None

    @property
    def factor(self) -> float:
        """The threshold that the call gives, before it is multiplied."""
        return get_clipping_threshold(self.question)

    @property
    def has_multiple(self) -> bool:
        """Whether the threshold is multiplied by a norm of its own."""
        return self.parameter is not None or self.share is not None

    @cached_property
    def weights(self) -> list[DyadicArray]:
        """The tensors whose norm multiplies the threshold."""
        if self.share is not None:
            # The root of a share is the norm of as many ones as its numerator, divided by the root of its denominator.
            return [DyadicArray([1] * self.share.numerator, 0, [False] * self.share.numerator)]
        return [] if self.parameter is None else [decode(self.parameter.data, self.parameter.dtype)]

    @property
    def parts(self) -> int:
        """The number that divides the sum of squares of the weights."""
        return 1 if self.share is None else self.share.denominator

    @cached_property
    def multiple(self) -> Enclosure:
        """The number that multiplies the threshold: the norm of the weights, at least `eps`. Weights must be finite."""
        if not self.has_multiple:
            return Enclosure(Fraction(1), Fraction(1))
        norm = integers.compute_norm(self.weights, divisor=self.parts)
        least = Fraction(self.question.options.get("eps", 0.0))
        return Enclosure(least, least, least**2, 2) if norm.middle < least else norm

    @property
    def threshold(self) -> float:
        """The threshold of the group, as a float, or NaN if the parameter is not finite."""
        if not all(one.is_finite for one in self.weights):
            return math.nan
        return self.factor * float(self.multiple.middle)

    def bound_errors(self, terms: int, norm: float) -> ErrorBounds:
        """Return the error bounds for a norm of this size over a number of nonzero terms."""
        is_average = OPERATIONS[self.question.operation].is_average
        errors = compute_error_bounds(self.form, self.question.norm_type, terms, norm, is_average=is_average)
        if not self.has_multiple:
            return errors
        # A share is the root of a quotient, not of a sum.
        weight_terms = 1 if self.parameter is None else int(np.count_nonzero(read_float64_values(self.parameter)))
        others = compute_error_bounds(self.form, 2.0, weight_terms, 1.0)
        return add_parameter_errors(self.form, errors, others)


def make_group(question: Question, members: Sequence[int]) -> Group:
    """Return the group of these gradients. An excluded or missing gradient may be a group of its own."""
    arrays = [question.gradients[i].array for i in members]
    included = [
        array for i, array in zip(members, arrays, strict=True) if array is not None and question.gradients[i].need_clip
    ]
    alone = arrays[0] if len(members) == 1 else None
    return Group(
        question,
        tuple(members),
        FORMATS[find_narrowest(question) if alone is None else alone.dtype],
        count_divisor(question.operation, sum(math.prod(array.shape) for array in included)),
        question.gradients[members[0]].parameter if members else None,
        compute_layer_share(question, members[0]) if members else None,
    )
