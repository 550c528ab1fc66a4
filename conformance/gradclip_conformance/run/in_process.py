"""An adapter in the suite's own process: no host, no time limit, no protection from a crash.

Of what a function raises to end its process, only a Ctrl-C ends this one: it may be a program with a verdict to give.
For plain functions given to `check_clipper`, which may be closures that no other process can import.
"""

from __future__ import annotations

import platform
import traceback

import numpy as np

from gradclip_adapters.contract import Adapter, Call, FrameworkRaised, Unsupported, text_of

from ..judge.model import Answer, Description, Died, Mistaken, NotSupported, Raised, Replied

__all__ = ["InProcess"]


class InProcess:
    """A connection that calls its adapter directly."""

    def __init__(self, adapter: Adapter) -> None:
        self._adapter = adapter
        self._floating_point_errors = np.geterr()
        about = adapter.about()
        environment = {"python": platform.python_version(), "platform": platform.platform(), **about.environment}
        self.description = Description(about.framework, about.version, environment, tuple(adapter.subjects()))

    def ask(self, call: Call, timeout: float) -> Answer:
        """The answer to one call; `timeout` cannot be kept here."""
        del timeout
        try:
            # What the suite does with floating-point errors for itself is not the function's concern.
            with np.errstate(**self._floating_point_errors):
                return Replied(self._adapter.call(call))
        except Unsupported as error:
            return NotSupported(str(error))
        except FrameworkRaised as error:
            return Raised(error.kind, error.text, error.inputs)
        except Exception:
            return Mistaken(traceback.format_exc())
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            return Died(f"The call would have ended a host process: {type(error).__name__}: {text_of(error)}")

    def close(self) -> None:
        """Nothing to end."""

    def kill(self) -> None:
        """Nothing to end."""
