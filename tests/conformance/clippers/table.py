"""The table of wrong clippers: a mutation is registered once for each operation that has its rule."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from gradclip_adapters.contract import Adapter
from gradclip_adapters.plain import PlainFunction
from gradclip_spec import rules

from .steps import Clipper, concrete

__all__ = ["WRONG", "Wrong", "caught_by"]

RULES = {rule.id: rule for rule in rules.load()}

Mutation = TypeVar("Mutation", bound=type[Clipper])


@dataclass(frozen=True)
class Wrong:
    """A clipper that is wrong in one way, and the rule that must catch it."""

    function: Callable[..., Any]
    operation: str
    rule: str
    dtypes: tuple[str, ...] = ("float32",)
    in_place: bool | None = None
    #: What makes an adapter of the function, where it needs abilities that no signature shows.
    adapter: Callable[..., Adapter] = PlainFunction
    #: Beyond what the arithmetic of the dtype excuses, though the rule is about accuracy.
    inexcusable: bool = False

    @property
    def name(self) -> str:
        """The mutation and its operation."""
        return f"{type(self.function).__name__}-{self.rule}"

    @property
    def caught_as(self) -> str:
        """The status that a cell of the rule must have: poor accuracy alone is no failure."""
        return "quality" if RULES[self.rule].level == "quality" and not self.inexcusable else "fail"


WRONG: list[Wrong] = []


def caught_by(
    *names: str,
    dtypes: Sequence[str] = ("float32",),
    in_place: bool | None = None,
    adapter: Callable[..., Adapter] = PlainFunction,
    inexcusable: bool = False,
) -> Callable[[Mutation], Mutation]:
    """Put a mutation into the table, under these rules.

    A name without an operation (`zero-gradient`) stands for the rules of this name of all operations that the
    mutation's base class covers; `global-norm.zero-gradient` is that one.
    """

    def register(mutation: Mutation) -> Mutation:
        assert mutation.__doc__, f"{mutation.__name__} does not say what is wrong with it"
        covered = next(parent for parent in mutation.__mro__ if parent.__module__ == Clipper.__module__)
        for name in names:
            found = [
                (_made(mutation, base), base)
                for base in concrete()
                if issubclass(base, covered)
                and (f"{base.short}.{name}" in RULES or (name in RULES and name.startswith(f"{base.short}.")))
            ]
            assert found, f"{mutation.__name__}: no operation of it has a rule {name!r}"
            for function, base in found:
                rule = name if "." in name else f"{base.short}.{name}"
                wrong = Wrong(function, base.operation, rule, tuple(dtypes), in_place, adapter, inexcusable)  # type: ignore[arg-type]
                WRONG.append(wrong)
        return mutation

    return register


def _made(mutation: type[Clipper], base: type[Clipper]) -> Clipper:
    """The mutation of one operation's right clipper; an instance, which is called like a function."""
    if issubclass(mutation, base):
        return mutation()
    made = type(mutation.__name__, (mutation, base), {"__doc__": mutation.__doc__, "__module__": mutation.__module__})
    instance: Clipper = made()
    return instance
