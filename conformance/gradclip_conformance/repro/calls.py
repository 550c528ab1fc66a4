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
    #: If the script also makes the call inside the framework's compiler: that second call, and the lines before it.
    compiled: ScriptCall | None = None
    between: str = ""
