"""What can come back for a call: an answer of the framework, or the reason why there is none."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from gradclip_adapters.contract import Array, Call, Reply, Subject

__all__ = [
    "Answer",
    "Connection",
    "Description",
    "Died",
    "Mistaken",
    "NotSupported",
    "Raised",
    "Replied",
    "StartError",
    "TimedOut",
]


@dataclass(frozen=True)
class Replied:
    """The framework returned."""

    reply: Reply


@dataclass(frozen=True)
class Raised:
    """The framework raised."""

    kind: str
    text: str
    inputs: tuple[Array | None, ...] | None = None


@dataclass(frozen=True)
class NotSupported:
    """The adapter declares that the framework cannot do it."""

    text: str


@dataclass(frozen=True)
class Mistaken:
    """The adapter itself raised, outside the framework."""

    text: str


@dataclass(frozen=True)
class Died:
    """The host process ended, or said something that is no answer and was ended."""

    text: str


@dataclass(frozen=True)
class TimedOut:
    """No answer came within the time limit, and the host process was ended."""

    seconds: float


Answer = Replied | Raised | NotSupported | Mistaken | Died | TimedOut


@dataclass(frozen=True)
class Description:
    """What a host says of itself when it has started."""

    framework: str
    version: str
    environment: dict[str, str]
    subjects: tuple[Subject, ...]

    @property
    def heading(self) -> str:
        """The framework and, if it has one, its version."""
        return f"{self.framework} {self.version}".rstrip()


class StartError(Exception):
    """An adapter did not start; the text says why and what to do.

    `kind` is "bad-target", "missing-framework", "broken-adapter", "protocol", "no-host" or "start-timeout".
    """

    def __init__(self, kind: str, text: str) -> None:
        super().__init__(text)
        self.kind = kind


class Connection(Protocol):
    """A started adapter that answers calls."""

    description: Description

    def ask(self, call: Call, timeout: float) -> Answer:
        """The answer to one call, within `timeout` seconds."""

    def close(self) -> None:
        """End the adapter."""

    def kill(self) -> None:
        """End the adapter at once, from any thread."""
