"""Execute a script without its framework: what it imports is played by objects that do nothing."""

from __future__ import annotations

import builtins
import contextlib
import io
from collections.abc import Iterator
from typing import Any

__all__ = ["StandIn", "execute"]

#: What a script may really import.
REAL = ("math", "numpy", "sys")


class StandIn:
    """An object that has every attribute, takes every call, and holds nothing."""

    def __getattr__(self, name: str) -> StandIn:
        if name.startswith("__"):
            raise AttributeError(name)
        return StandIn()

    def __call__(self, *arguments: Any, **keywords: Any) -> StandIn:
        """Return another one."""
        return StandIn()

    def __iter__(self) -> Iterator[Any]:
        return iter(())

    def __getitem__(self, key: Any) -> StandIn:
        return StandIn()

    def __neg__(self) -> StandIn:
        return StandIn()


def execute(text: str) -> None:
    """Execute a script in the working directory; what it prints and raises does not matter, only what it does."""

    def import_(name: str, *rest: Any) -> Any:
        return __import__(name, *rest) if name.partition(".")[0] in REAL else StandIn()

    own = {**vars(builtins), "__import__": import_}
    # Whatever a script raises: it is expected to fail.
    with contextlib.suppress(BaseException), contextlib.redirect_stdout(io.StringIO()):
        exec(compile(text, "script", "exec"), {"__builtins__": own, "__name__": "__main__"})
