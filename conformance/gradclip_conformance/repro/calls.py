"""Define the parts of a script that depend on what it calls: a framework, or an adapter."""

from __future__ import annotations

from dataclasses import dataclass

from ..judge.model import ScriptCall

__all__ = ["Calls"]


@dataclass(frozen=True)
class Calls:
    """The lines of a script that import what it calls, and those of its calls."""

    imports: str
    call: ScriptCall
    #: The call inside the framework's compiler, if the script compares two calls, and the lines between the two.
    compiled: ScriptCall | None = None
    between: str = ""
