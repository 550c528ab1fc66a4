"""Start a host process, send it calls, and replace it when it dies, hangs or sends something wrong.

To start a host, the suite launches the process and sends `hello`. Within the start limit, the host must send `loading`,
before it runs foreign code. Within the load limit, it must send `about` or `failed`.

For each call, the suite sends one `call`, and the answer must come back within the time limit of a case. If the host
says that processes are `starting`, they get the start limit. The time of the call begins anew when they have `started`.
If anything else happens, the suite ends the process. The reason becomes the answer to this call, and the next call
starts a new process.

A thread writes the messages, so the suite waits only for the answer, and the limits hold in both directions. Calls may
be sent before the last answer is judged; the time limit of a call counts from the moment when the suite waits for its
answer. The suite does not trust the host: `pipes` reads in pieces and stops at a limit, and `messages` checks the
contents.
"""

from __future__ import annotations

import contextlib
import os
import shlex
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from contextvars import ContextVar
from pathlib import Path
from typing import Any

import gradclip_adapters
from gradclip_adapters import wire
from gradclip_adapters.answers import count_answer_line_bytes
from gradclip_adapters.contract import Call
from gradclip_adapters.limits import shorten
from gradclip_adapters.recipes import VERSION as RECIPES

from ..judge.model import Answer, Description, Died, LoadError, StartError, TimedOut
from .messages import check_formulas, name_what_is_loaded, read_answer, read_message, read_notice, read_start
from .pipes import LineReader, LineWriter, PipeFlooded, Tail
from .probing import EarlyAnswers, Patience, TimeLimits, settle_abilities

#: These variables keep frameworks quiet, and make their answers the same on every machine. A user's own setting has
#: priority.
PINNED_ENVIRONMENT = {
    "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
    "JAX_ENABLE_X64": "1",
    "NVIDIA_TF32_OVERRIDE": "0",
    "PYTHONHASHSEED": "0",
    "TF_CPP_MIN_LOG_LEVEL": "3",
    "TF_ENABLE_ONEDNN_OPTS": "0",
}

#: A framework's first import can compile (Jittor's takes two minutes).
START_SECONDS = 300.0
#: The time limit of a case unless another is given.
CASE_SECONDS = 30.0
#: A host's first line has at most this many bytes. It holds the entry points of a framework, or a traceback.
START_BYTES = 16 << 20
#: While a host starts, the suite checks at this interval whether the run was stopped.
TURN_SECONDS = 0.25
#: An event that says that the run was stopped. A run sets this variable for the hosts that it starts.
run_stopped: ContextVar[threading.Event | None] = ContextVar("run_stopped", default=None)
#: How often a host may start processes during a call. Paddle's adapter starts them up to six times.
STARTS = 8
SAME_VERSION = "install the same gradclip-spec on both sides."
#: Python refuses to wait for more than about twice this time (300 years on common systems).
LONGEST_SECONDS = threading.TIMEOUT_MAX / 2


def build_host_command(python: str | None = None, command: str | None = None) -> list[str]:
    """Return the command that starts a host, without the target. `command` may be any launcher of a process."""
    if command is not None:
        return shlex.split(command)
    launcher = Path(gradclip_adapters.__file__).with_name("launch.py")
    return [python or sys.executable, str(launcher)]


class _EarlierCallFailed(Exception):
    """A host did not answer a call that was sent before the one that is asked."""


class _ProcessesLate(TimeoutError):
    """The processes that a host starts take too long."""


class HostProcess:
    """A host process. After its death, the next call starts a new one."""

    def __init__(
        self,
        command: Sequence[str],
        environment: Mapping[str, str] | None = None,
        start_seconds: float = START_SECONDS,
        call_seconds: float = CASE_SECONDS,
        load_seconds: float | None = None,
    ) -> None:
        self.command = list(command)
        self.environment = dict(environment or {})
        self.start_seconds = start_seconds
        self.load_seconds = start_seconds if load_seconds is None else load_seconds
        self._process: subprocess.Popen[bytes] | None = None
        self._sent = LineWriter()
        self._lines = LineReader()
        self._errors = Tail()
        self._number = 0
        #: The calls that were sent and not yet asked for, by number, and the lines that have answered some of them.
        self._open: dict[int, Call] = {}
        #: The number of bytes that the line of an answer to each of them may have.
        self._limits: dict[int, int] = {}
        self._received: dict[int, str] = {}
        self._closed = False
        self._knows_recipes = False
        self._stopped = run_stopped.get()
        self._early, self._patience, self._time_limits = EarlyAnswers(), Patience(), TimeLimits()
        self._loading: Mapping[str, Any] | None = None
        found = self._start()
        self._time_limits = TimeLimits(found.subjects)
        try:
            self.description = settle_abilities(found, lambda call: self._ask(call, call_seconds), self._early)
        except BaseException:
            self._end()
            raise

    def begin(self, call: Call) -> None:
        """Send a call that will be asked soon, so that the host answers it while the suite judges another answer."""
        if self._process is not None and not self._early.holds(call):
            self._open_call(call)

    def ask(self, call: Call, timeout: float) -> Answer:
        """Return the answer to one call. Whatever the host does, this does not raise."""
        return self._early.take(call) or self._ask(call, timeout)

    def _ask(self, call: Call, timeout: float) -> Answer:
        answer = self._patience.ask(call, lambda: self._ask_now(call, timeout))
        self._time_limits.note(call, answer)
        return answer

    def _ask_now(self, call: Call, timeout: float) -> Answer:
        if self._process is None:
            try:
                self._start()
            except StartError as error:
                text = f"The host process could not be started again: {error}"
                return TimedOut(self.load_seconds, text) if error.kind == "start-timeout" else Died(text)
        timeout = self._time_limits.find(call, timeout)
        number = next((number for number, other in self._open.items() if other == call), None) or self._open_call(call)
        try:
            # The host answers in the order in which the calls were sent.
            for earlier in [each for each in self._open if each < number and each not in self._received]:
                self._received[earlier] = self._receive_earlier(timeout)
            line = self._received.pop(number) if number in self._received else self._receive_answer(timeout)
        except _EarlierCallFailed:
            # The answer of that call is its own matter. Without it, a new process can answer this one.
            self._end()
            return self._ask_now(call, timeout)
        except _ProcessesLate:
            self._end()
            return TimedOut(
                self.start_seconds, f"The processes of the framework did not start within {self.start_seconds:g} s."
            )
        except TimeoutError:
            self._end()
            return TimedOut(timeout)
        except PipeFlooded as error:
            self._end()
            return Died(f"The host process was ended: {error}")
        if line is None:
            return Died(self._describe_death())
        del self._open[number], self._limits[number]
        answer = read_answer(line, number, call)
        if isinstance(answer, Died):
            self._end()
        return answer

    def _open_call(self, call: Call) -> int:
        """Send a call, and return its number."""
        self._number += 1
        self._open[self._number] = call
        self._errors.begin()
        self._limits[self._number] = count_answer_line_bytes(call)
        # An answer may have two lines more, about processes.
        self._lines.allow(max(self._limits.values()), 3 * len(self._limits))
        self._send(wire.encode_call(call, self._number, self._knows_recipes))
        return self._number

    def _receive_earlier(self, timeout: float) -> str:
        """Return the answer to a call that was sent before the one that is asked, or raise `_EarlierCallFailed`."""
        try:
            line = self._receive_answer(timeout)
        except (TimeoutError, PipeFlooded):
            line = None
        if line is None:
            raise _EarlierCallFailed
        return line

    def renew(self) -> None:
        """End the process, so that the next call starts a new one."""
        self._end()

    def close(self) -> None:
        """Send `bye`, and end the process in any case."""
        self._closed = True
        process = self._process
        if process is None:
            return
        self._send({"message": "bye"})
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(timeout=2)
        self._end()

    def kill(self) -> None:
        """End the process at once, from any thread. A call that waits for it gets the answer `Died`."""
        self._closed = True
        process = self._process
        if process is not None:
            _kill_group(process)

    def _start(self) -> Description:
        if self._is_stopped():
            raise StartError("no-host", "the run was stopped")
        self._time_limits.forget()
        self._sent, self._lines, self._errors = LineWriter(), LineReader(), Tail()
        self._loading = None
        environment = {**PINNED_ENVIRONMENT, **os.environ, **self.environment}
        try:
            self._process = subprocess.Popen(
                self.command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                env=environment,
                # Use a new process group, so that a Ctrl-C reaches only the suite, which then ends the host and its
                # children.
                start_new_session=True,
            )
        except OSError as error:
            why = error.strerror or error
            text = f"Cannot run {self.command[0]!r}: {why}. Name another Python, or another launcher of a host."
            raise StartError("no-host", text) from error
        process = self._process
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        self._sent.start(process.stdin)
        self._lines.start(process.stdout, START_BYTES)
        self._errors.start(process.stderr, lambda: _kill_group(process))
        try:
            self._send({"message": "hello", "protocol": wire.PROTOCOL})
            line = self._receive_first()
        except KeyboardInterrupt:
            self._end()
            raise
        except TimeoutError:
            self._end()
            raise self._explain_late() from None
        except PipeFlooded as error:
            self._end()
            raise StartError("broken-adapter", f"The host was ended before it started: {error}") from None
        if line is None:
            raise self._explain_unstarted()
        return self._parse_description(line)

    def _explain_late(self) -> StartError:
        """Return the error about a host that takes too long to start, or to load its adapter."""
        if self._loading is None:
            text = f"The host did not start within {self.start_seconds:g} s: {shlex.join(self.command)}"
            return StartError("start-timeout", text)
        text = f"Loading {name_what_is_loaded(self._loading)} took longer than {self.load_seconds:g} s."
        return LoadError("start-timeout", text, self._loading)

    def _explain_unstarted(self) -> StartError:
        """Return the error about a host that has ended before it described itself."""
        if self._loading is None:
            return StartError("no-host", f"The host ended before it started. {self._describe_death()}")
        text = self._describe_death(f" while it loaded {name_what_is_loaded(self._loading)},")
        return LoadError("no-host", text, self._loading)

    def _parse_description(self, line: str) -> Description:
        try:
            message = read_message(line)
            if message["message"] == "failed":
                self._end()
                raise StartError(message["kind"], message["text"])
            if message["protocol"] != wire.PROTOCOL:
                self._end()
                text = f"The host speaks protocol {message['protocol']}, the suite {wire.PROTOCOL}: {SAME_VERSION}"
                raise StartError("protocol", text)
            about, entry_points = wire.decode_about(message)
            check_formulas(entry_points)
            self._knows_recipes = message.get("recipes") == RECIPES
            environment = {**about.environment, "python": message["python"], "platform": message["platform"]}
            return Description(about.framework, about.version, environment, entry_points)
        except (ValueError, KeyError, TypeError) as error:
            self._end()
            # The error may quote a name of any length.
            text = shorten(f"The host's first message is not an `about`: {error}")
            raise StartError("broken-adapter", text) from error

    def _send(self, message: Mapping[str, Any]) -> None:
        """Queue a message for the writing thread. If the write fails, no answer comes."""
        self._sent.write(wire.dumps(message) + "\n")

    def _receive_answer(self, timeout: float) -> str | None:
        """Return the line of the next answer. The time in which the host starts processes does not count.

        Raises
        ------
        TimeoutError
            If no answer comes within the time, or if the processes do not start within the start limit.
        """
        line = self._receive(timeout)
        for _ in range(2 * STARTS):
            kind = None if line is None else read_start(line)
            if kind is None:
                break
            try:
                line = self._receive(self.start_seconds if kind == "starting" else timeout)
            except TimeoutError:
                if kind == "starting":
                    raise _ProcessesLate from None
                raise
        return line

    def _receive(self, timeout: float) -> str | None:
        return self._lines.read(min(timeout, LONGEST_SECONDS))

    def _receive_first(self) -> str | None:
        """Wait for the message after `loading`, in short turns, because no other thread can end a starting host."""
        deadline = time.monotonic() + self.start_seconds
        while True:
            left = deadline - time.monotonic()
            try:
                line = self._receive(max(0.0, min(left, TURN_SECONDS)))
                if line is None or self._loading is not None or (loading := read_notice(line, "loading")) is None:
                    return line
                self._loading, deadline = loading, time.monotonic() + self.load_seconds
            except TimeoutError:
                if self._is_stopped():
                    self._end()
                    raise StartError("no-host", "the run was stopped") from None
                if left <= TURN_SECONDS:
                    raise

    def _is_stopped(self) -> bool:
        return self._closed or (self._stopped is not None and self._stopped.is_set())

    def _describe_death(self, meanwhile: str = "") -> str:
        """Return how the process ended, with its last lines on standard error."""
        assert self._process is not None
        process = self._process
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(timeout=5)
        code = process.poll()
        self._end()
        how = f"closed its output{meanwhile}" if code is None else f"ended{meanwhile} {_describe_end(code)}"
        if self._errors.flooded:
            how = f"was ended{meanwhile}: {self._errors.flooded}"
        said = " | ".join(self._errors.list_last_lines(5))
        return f"The host process {how.rstrip(',')}" + (f"; its last output: {said}" if said else ".")

    def _end(self) -> None:
        process, self._process = self._process, None
        self._open.clear()
        self._limits.clear()
        self._received.clear()
        if process is None:
            return
        _kill_group(process)
        process.wait()
        # Each stream is closed by its own thread. If a child of the host still holds it, closing it here would block.
        self._sent.close()


def _kill_group(process: subprocess.Popen[bytes]) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        if hasattr(os, "killpg"):
            os.killpg(process.pid, signal.SIGKILL)
        else:
            process.kill()


def _describe_end(code: int) -> str:
    if code >= 0:
        return f"with exit code {code}"
    try:
        return f"by signal {signal.Signals(-code).name}"
    except ValueError:
        # Most real-time signals have no name.
        return f"by signal {-code}"
