"""Define the parts of a script that depend on what it calls: a framework, or an adapter."""

from __future__ import annotations

from dataclasses import dataclass

from gradclip_adapters.contract import Gradient

from ..cases.literals import NoScript
from ..cases.model import Case
from ..cases.stacking import PER_EXAMPLE, count_examples, stack_examples
from ..judge.model import ScriptCall

__all__ = ["Calls", "list_passed_gradients"]


@dataclass(frozen=True)
class Calls:
    """The lines of a script that import what it calls, and those of its calls."""

    imports: str
    call: ScriptCall
    #: If the script also makes the call inside the framework's compiler: that second call, and the lines before it.
    compiled: ScriptCall | None = None
    between: str = ""


def list_passed_gradients(case: Case) -> tuple[Gradient, ...]:
    """Return the gradients that a call passes. A script cannot take the sums of several examples apart.

    Raises
    ------
    NoScript
        If the case has several examples.
    """
    if case.operation != PER_EXAMPLE:
        return case.gradients
    if count_examples(case.gradients) > 1:
        msg = f"{case.id} has several examples. No script takes their sum apart."
        raise NoScript(msg)
    return stack_examples(case.gradients)
