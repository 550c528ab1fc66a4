"""Call an adapter in the suite's own process, without limits of time or memory and without protection from a crash.

`check_clipper` does this with plain functions that no other process can import, such as closures. If a function raises
`SystemExit`, the check goes on; only a Ctrl-C ends it.
"""

from __future__ import annotations

import platform
import traceback

import numpy as np

from gradclip_adapters.contract import Adapter, BadReply, Call, FrameworkRaised, Unsupported, read_text
from gradclip_adapters.host import refuse_excess
from gradclip_adapters.surroundings import answer_in_watched_surroundings
from gradclip_adapters.wire import check_entry_points

from ..judge.model import Answer, Description, Died, Mistaken, NotSupported, Raised, Replied
from .probing import EarlyAnswers, settle_abilities


class WithoutProcess:
    """The base of connections that have no process of their own to start, to renew or to end."""

    def begin(self, call: Call) -> None:
        """Do nothing: the answer comes when it is asked for."""

    def renew(self) -> None:
        """Do nothing."""

    def close(self) -> None:
        """Do nothing."""

    def kill(self) -> None:
        """Do nothing."""


class InProcess(WithoutProcess):
    """A connection that calls its adapter directly."""

    def __init__(self, adapter: Adapter) -> None:
        self._adapter = adapter
        self._floating_point_errors = np.geterr()
        about = adapter.about()
        environment = {**about.environment, "python": platform.python_version(), "platform": platform.platform()}
        found = Description(about.framework, about.version, environment, check_entry_points(adapter.subjects()))
        self._early = EarlyAnswers()
        self.description = settle_abilities(found, self._call, self._early)

    def ask(self, call: Call, timeout: float) -> Answer:
        """Return the answer to one call. `timeout` cannot be kept here."""
        del timeout
        return self._early.take(call) or self._call(call)

    def _call(self, call: Call) -> Answer:
        try:
            # The function sees the caller's settings for floating-point errors, not those of the suite.
            with np.errstate(**self._floating_point_errors):
                return Replied(refuse_excess(answer_in_watched_surroundings(self._adapter, call), call))
        except Unsupported as error:
            return NotSupported(read_text(error), error.kind)
        except FrameworkRaised as error:
            return Raised(error.kind, error.text, error.inputs, error.disturbed)
        except BadReply as error:
            return Mistaken(read_text(error))
        except Exception:  # noqa: BLE001 - the function under test may raise anything
            return Mistaken(traceback.format_exc())
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # noqa: BLE001 - nor may it end this process, as by SystemExit
            return Died(f"The call would have ended a host process: {type(error).__name__}: {read_text(error)}")
