"""Define a case: one call, and what its rule expects of the answer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from gradclip_adapters.contract import Call, Gradient
from gradclip_adapters.operations import OPERATIONS


@dataclass(frozen=True)
class Expect:
    """The name of an expectation, and its parameters.

    This is data: the class of this name in `judge.expectations` knows what it means.
    """

    name: str
    #: The parameters, sorted by name.
    parameters: tuple[tuple[str, Any], ...] = ()


def expect(name: str, **parameters: Any) -> Expect:
    """Return an expectation by its name, such as `expect("values", wide=True)`."""
    return Expect(name, tuple(sorted(parameters.items())))


@dataclass(frozen=True)
class Case:
    """One call under one rule."""

    rule: str
    variant: str
    dtype: str
    operation: str
    gradients: tuple[Gradient, ...]
    options: Mapping[str, Any]
    expectation: Expect
    #: The features that an entry point must have for the call to make sense.
    needs: frozenset[str] = field(default_factory=frozenset)

    @property
    def id(self) -> str:
        """The stable name: rule, variant and dtype."""
        return f"{self.rule}/{self.variant}/{self.dtype}"

    @property
    def theme(self) -> str:
        """The rule's name without its operation."""
        return self.rule.partition(".")[2]

    @cached_property
    def included(self) -> tuple[int, ...]:
        """The indices of the gradients that exist and are not excluded."""
        return tuple(
            i for i, gradient in enumerate(self.gradients) if gradient.array is not None and gradient.need_clip
        )

    @cached_property
    def excluded(self) -> tuple[int, ...]:
        """The indices of the gradients that exist and are excluded."""
        return tuple(
            i for i, gradient in enumerate(self.gradients) if gradient.array is not None and not gradient.need_clip
        )

    @property
    def norm_type(self) -> float:
        """The order of the norm: that of the operation, unless the case says otherwise."""
        return float(self.options.get("norm_type", OPERATIONS[self.operation].norm_type))

    def make(self) -> Case:
        """Return this case. A case that makes its gradients lazily overrides this method."""
        return self

    def under(self, rule: str, expectation: Expect) -> Case:
        """Return the same call under another rule."""
        case = object.__new__(Case)
        # Each answer is judged under several rules. What is known of its gradients stays known.
        vars(case).update(vars(self.make()), rule=rule, expectation=expectation)
        return case

    def call(self, entry_point: str) -> Call:
        """Return the call of this case to an entry point."""
        return Call(entry_point, self.gradients, self.options)
