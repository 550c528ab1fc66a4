"""Execute a script without its framework: stand-ins that do nothing replace its imports."""

from __future__ import annotations

import builtins
import contextlib
import io
from collections.abc import Iterator
from typing import Any

__all__ = ["StandIn", "execute"]

#: Modules that a script may really import.
REAL = ("math", "numpy", "sys")


class StandIn:
    """An object that has every attribute, accepts every call, and holds nothing."""

    def __getattr__(self, name: str) -> StandIn:
        if name.startswith("__"):
            raise AttributeError(name)
        return StandIn()

    def __call__(self, *arguments: Any, **keywords: Any) -> StandIn:
        """Return another stand-in."""
        return StandIn()

    def __iter__(self) -> Iterator[Any]:
        return iter(())

    def __getitem__(self, key: Any) -> StandIn:
        return StandIn()

    def __neg__(self) -> StandIn:
        return StandIn()


def execute(text: str) -> None:
    """Execute a script in the working directory. Its output and errors do not matter, only its effects."""

    def import_(name: str, *rest: Any) -> Any:
        return __import__(name, *rest) if name.partition(".")[0] in REAL else StandIn()

    own = {**vars(builtins), "__import__": import_}
    # A script may raise anything: it is expected to fail.
    with contextlib.suppress(BaseException), contextlib.redirect_stdout(io.StringIO()):
        exec(compile(text, "script", "exec"), {"__builtins__": own, "__name__": "__main__"})
