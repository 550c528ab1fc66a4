"""Hold the table of mutants: each mutant occurs once for each rule that must catch it.

Each judged rule needs one mutant. Add another one if at most three cells catch it, and no other function is
caught by some of these cells only. The package `generated` makes all others.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from gradclip_adapters.contract import Adapter
from gradclip_adapters.plain import PlainFunction
from gradclip_spec import rules

from .steps import ClipFunction, list_concrete

__all__ = ["WRONG", "Wrong", "caught_by"]

RULES = {rule.id: rule for rule in rules.load()}

Mutation = TypeVar("Mutation", bound=type[ClipFunction])


@dataclass(frozen=True)
class Wrong:
    """A function with one defect, and the rule that must catch it."""

    function: Callable[..., Any]
    operation: str
    rule: str
    dtypes: tuple[str, ...] = ("float32",)
    in_place: bool | None = None
    #: A function that makes the adapter, for functions with abilities that their signature does not show.
    adapter: Callable[..., Adapter] = PlainFunction
    #: Whether the error is too large for the dtype's arithmetic, although the rule is about accuracy.
    inexcusable: bool = False

    @property
    def name(self) -> str:
        """Return the name of the mutant and its rule."""
        return f"{type(self.function).__name__}-{self.rule}"

    @property
    def caught_as(self) -> str:
        """Return the status that a cell of the rule must have: poor accuracy alone is not a failure."""
        return "quality" if RULES[self.rule].level == "quality" and not self.inexcusable else "fail"


WRONG: list[Wrong] = []


def caught_by(
    *names: str,
    dtypes: Sequence[str] = ("float32",),
    in_place: bool | None = None,
    adapter: Callable[..., Adapter] = PlainFunction,
    inexcusable: bool = False,
    others: bool = False,
) -> Callable[[Mutation], Mutation]:
    """Add a mutant to the table, once for each rule.

    A name without an operation, such as `zero-gradient`, stands for several rules: one for each operation that the
    base class of the mutant covers. `global-norm.zero-gradient` stands for that rule alone. With `others`, the
    operations are those beside the three main ones.
    """

    def register(mutation: Mutation) -> Mutation:
        assert mutation.__doc__, f"{mutation.__name__} has no docstring that describes its defect"
        covered = next(parent for parent in mutation.__mro__ if parent.__module__ == ClipFunction.__module__)
        for name in names:
            found = [
                (_combine(mutation, base), base)
                for base in list_concrete(others=others)
                if issubclass(base, covered)
                and (f"{base.short}.{name}" in RULES or (name in RULES and name.startswith(f"{base.short}.")))
            ]
            assert found, f"{mutation.__name__}: none of its operations has a rule {name!r}"
            for function, base in found:
                rule = name if "." in name else f"{base.short}.{name}"
                wrong = Wrong(function, base.operation, rule, tuple(dtypes), in_place, adapter, inexcusable)  # type: ignore[arg-type]
                WRONG.append(wrong)
        return mutation

    return register


def _combine(mutation: type[ClipFunction], base: type[ClipFunction]) -> ClipFunction:
    """Combine a mutant with the right function of one operation. The instance is called like a function."""
    if issubclass(mutation, base):
        return mutation()
    made = type(mutation.__name__, (mutation, base), {"__doc__": mutation.__doc__, "__module__": mutation.__module__})
    instance: ClipFunction = made()
    return instance
