"""The suite's end of a host process: starts it, asks it, and replaces it when it dies, hangs or talks rubbish.

Starting: the process is launched; `hello` is sent; `about` or `failed` comes back within the start limit.
Asking: one `call` is sent; its answer comes back within the case's limit. Whatever else happens, the process is ended,
the reason becomes the answer of this one call, and the next call starts a new process.
Both limits hold for what is sent and for what comes back: a thread writes, and only the answer is waited for.
"""

from __future__ import annotations

import collections
import contextlib
import os
import queue
import shlex
import signal
import subprocess
import sys
import threading
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import IO, Any

import gradclip_adapters
from gradclip_adapters import wire
from gradclip_adapters.contract import DTYPES, Array, Call

from ..judge.model import Answer, Description, Died, Mistaken, NotSupported, Raised, Replied, StartError, TimedOut
from .messages import message_of

__all__ = ["PINNED_ENVIRONMENT", "HostProcess", "host_command"]

#: What would make a framework answer differently from machine to machine, or chatter. A user's own setting wins.
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
STDERR_LINES = 20
#: Python refuses to wait for longer than about twice this (on the commonest systems, 300 years).
LONGEST_SECONDS = threading.TIMEOUT_MAX / 2


def host_command(python: str | None = None, command: str | None = None) -> list[str]:
    """The command that starts a host, less the target: a Python executable, or any launcher of a process."""
    if command is not None:
        return shlex.split(command)
    launcher = Path(gradclip_adapters.__file__).with_name("launch.py")
    return [python or sys.executable, str(launcher)]


class HostProcess:
    """A host process that is started when it is first needed and again after each death."""

    def __init__(
        self,
        command: Sequence[str],
        environment: Mapping[str, str] | None = None,
        start_seconds: float = START_SECONDS,
    ) -> None:
        self.command = list(command)
        self.environment = dict(environment or {})
        self.start_seconds = start_seconds
        self._process: subprocess.Popen[str] | None = None
        self._sent: queue.Queue[str | None] = queue.Queue()
        self._lines: queue.Queue[str | None] = queue.Queue()
        self._errors: collections.deque[str] = collections.deque(maxlen=STDERR_LINES)
        self._number = 0
        self._closed = False
        self.description = self._start()

    def ask(self, call: Call, timeout: float) -> Answer:
        """The answer to one call; never raises for what the host does."""
        if self._process is None:
            try:
                self._start()
            except StartError as error:
                return Died(f"The host process could not be started again: {error}")
        self._number += 1
        try:
            self._send(wire.call_to_json(call, self._number))
            line = self._receive(timeout)
        except TimeoutError:
            self._end()
            return TimedOut(timeout)
        if line is None:
            return Died(self._death())
        answer = _understood(line, self._number, call)
        if isinstance(answer, Died):
            self._end()
        return answer

    def close(self) -> None:
        """Say goodbye, and end the process whether it listens or not."""
        self._closed = True
        process = self._process
        if process is None:
            return
        self._send({"message": "bye"})
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(timeout=2)
        self._end()

    def kill(self) -> None:
        """End the process at once, from any thread; a call that waits for it is answered with its death."""
        self._closed = True
        process = self._process
        if process is not None:
            _kill_group(process)

    def _start(self) -> Description:
        if self._closed:
            raise StartError("no-host", "the run was stopped")
        self._sent, self._lines = queue.Queue(), queue.Queue()
        self._errors = collections.deque(maxlen=STDERR_LINES)
        environment = {**PINNED_ENVIRONMENT, **os.environ, **self.environment}
        try:
            self._process = subprocess.Popen(
                self.command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                encoding="utf-8",
                errors="replace",
                env=environment,
                # Its own group, so that a Ctrl-C reaches the suite alone and the suite ends the host and its children.
                start_new_session=True,
            )
        except OSError as error:
            why = error.strerror or error
            text = f"Cannot run {self.command[0]!r}: {why}. Name another Python, or another launcher of a host."
            raise StartError("no-host", text) from error
        threading.Thread(target=_write_lines, args=(self._process.stdin, self._sent), daemon=True).start()
        threading.Thread(target=_queue_lines, args=(self._process.stdout, self._lines), daemon=True).start()
        threading.Thread(target=_keep_lines, args=(self._process.stderr, self._errors), daemon=True).start()
        try:
            self._send({"message": "hello", "protocol": wire.PROTOCOL})
            line = self._receive(self.start_seconds)
        except KeyboardInterrupt:
            self._end()
            raise
        except TimeoutError:
            self._end()
            text = f"The host did not start within {self.start_seconds:g} s: {shlex.join(self.command)}"
            raise StartError("start-timeout", text) from None
        if line is None:
            raise StartError("no-host", f"The host ended before it started. {self._death()}")
        return self._described(line)

    def _described(self, line: str) -> Description:
        try:
            message = message_of(line)
            if message["message"] == "failed":
                self._end()
                raise StartError(message["kind"], message["text"])
            return Description(
                framework=message["framework"],
                version=message["version"],
                environment={"python": message["python"], "platform": message["platform"], **message["environment"]},
                subjects=tuple(wire.subject_from_json(subject) for subject in message["subjects"]),
            )
        except (ValueError, KeyError, TypeError) as error:
            self._end()
            text = f"The host's first message is not an `about`: {error}"
            raise StartError("broken-adapter", text) from error

    def _send(self, message: Mapping[str, Any]) -> None:
        """Have a message written; that it cannot be is seen when the answer is read."""
        self._sent.put(wire.dumps(message) + "\n")

    def _receive(self, timeout: float) -> str | None:
        try:
            return self._lines.get(timeout=min(timeout, LONGEST_SECONDS))
        except queue.Empty:
            raise TimeoutError from None

    def _death(self) -> str:
        """How the process ended, and the last of what it said on standard error."""
        assert self._process is not None
        process = self._process
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(timeout=5)
        code = process.poll()
        self._end()
        if code is not None and code < 0:
            how = f"ended by signal {signal.Signals(-code).name}"
        else:
            how = "closed its output" if code is None else f"ended with exit code {code}"
        said = " | ".join(line.strip() for line in list(self._errors)[-5:] if line.strip())
        return f"The host process {how}" + (f"; its last words: {said}" if said else ".")

    def _end(self) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        _kill_group(process)
        process.wait()
        # Each stream is closed by the thread that works on it. Closed from here, one that a process which the host has
        # left behind still holds would be waited for.
        self._sent.put(None)


def _kill_group(process: subprocess.Popen[str]) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        if hasattr(os, "killpg"):
            os.killpg(process.pid, signal.SIGKILL)
        else:
            process.kill()


def _write_lines(stream: IO[str], lines: queue.Queue[str | None]) -> None:
    """Write each line until there is None or nobody reads, and close the stream.

    In a thread of its own: a host that does not read, or a network that stalls, holds up whoever writes to it.
    """
    with contextlib.suppress(OSError), stream:
        for line in iter(lines.get, None):
            stream.write(line)
            stream.flush()


def _queue_lines(stream: IO[str], lines: queue.Queue[str | None]) -> None:
    """Hand on each line until the stream ends, and then None."""
    with stream:
        for line in stream:
            lines.put(line)
    lines.put(None)


def _keep_lines(stream: IO[str], lines: collections.deque[str]) -> None:
    """Keep the last lines of a stream until it ends."""
    with stream:
        lines.extend(stream)


def _understood(line: str, number: int, call: Call) -> Answer:
    """The answer that a line holds, or the death of a host that talks rubbish."""
    try:
        message = message_of(line)
        if message.get("number") != number:
            return Died(f"The host answered call {message.get('number')} when it was asked call {number}.")
        match message["message"]:
            case "reply":
                reply = wire.reply_from_json(message)
                _check_arrays((*reply.gradients, reply.norm))
                _check_inputs(reply.inputs, call)
                return Replied(reply)
            case "raised":
                inputs = message["inputs"]
                arrays = None if inputs is None else tuple(wire.array_from_json(array) for array in inputs)
                _check_inputs(arrays, call)
                return Raised(message["kind"], message["text"], arrays)
            case "unsupported":
                return NotSupported(message["text"])
            case "mistake":
                return Mistaken(message["text"])
            case other:
                return Died(f"The host sent a message of the kind {other!r}, which is no answer.")
    except ValueError as error:
        return Died(f"The host's answer is not a message: {error}")


def _check_inputs(inputs: Sequence[Array | None] | None, call: Call) -> None:
    """Refuse inputs that cannot be those of the call, read back after it."""
    if inputs is None:
        return
    if len(inputs) != len(call.gradients):
        msg = f"{len(inputs)} `inputs` for a call of {len(call.gradients)} gradients"
        raise ValueError(msg)
    _check_arrays(inputs)


def _check_arrays(arrays: Iterable[Array | None]) -> None:
    """Refuse an array that does not hold as many bytes as its shape says."""
    for array in arrays:
        if array is not None and array.dtype in DTYPES:
            _check_length(array)


def _check_length(array: Array) -> None:
    elements = 1
    for length in array.shape:
        elements *= length
    expected = elements * int(DTYPES[array.dtype][-1])
    if len(array.data) != expected:
        msg = f"{len(array.data)} bytes for shape {array.shape} of {array.dtype}, which takes {expected}"
        raise ValueError(msg)
