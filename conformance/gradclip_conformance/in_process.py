"""An adapter in the suite's own process: no host, no time limit, no protection from a crash.

For plain functions given to `check_clipper`, which may be closures that no other process can import.
"""

from __future__ import annotations

import platform
import traceback

from gradclip_adapters.contract import Adapter, Call, FrameworkRaised, Unsupported

from .answers import Answer, Description, Mistaken, NotSupported, Raised, Replied

__all__ = ["InProcess"]


class InProcess:
    """A connection that calls its adapter directly."""

    def __init__(self, adapter: Adapter) -> None:
        self._adapter = adapter
        about = adapter.about()
        environment = {"python": platform.python_version(), "platform": platform.platform(), **about.environment}
        self.description = Description(about.framework, about.version, environment, tuple(adapter.subjects()))

    def ask(self, call: Call, timeout: float) -> Answer:
        """The answer to one call; `timeout` cannot be kept here."""
        del timeout
        try:
            return Replied(self._adapter.call(call))
        except Unsupported as error:
            return NotSupported(str(error))
        except FrameworkRaised as error:
            return Raised(error.kind, error.text, error.inputs)
        except Exception:
            return Mistaken(traceback.format_exc())

    def close(self) -> None:
        """Nothing to end."""

    def kill(self) -> None:
        """Nothing to end."""
