"""Call an adapter in a host process, without the suite. The scripts of `gradclip repro --command` need it.

There are no limits of time or size here. Use it only with a host that you trust.
"""

from __future__ import annotations

import contextlib
import json
import subprocess
from typing import Any, Mapping, Sequence

from . import wire
from .contract import About, Adapter, Call, EntryPoint, FrameworkRaised, Reply, Unsupported


class HostDied(RuntimeError):
    """The host process ended without an answer."""


class Client(Adapter):
    """An adapter that passes each call to a host process. `command` starts the process."""

    def __init__(self, command: Sequence[str]) -> None:
        self._process = subprocess.Popen(list(command), stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self._number = 0
        self._send({"message": "hello", "protocol": wire.PROTOCOL})
        message = self._receive()
        if message["message"] != "about":
            self.close()
            text = f"the host does not start: {message.get('text', message)}"
            raise RuntimeError(text)
        self._about, self._entry_points = wire.decode_about(message)

    def about(self) -> About:
        """Return the framework that the host has found."""
        return self._about

    def subjects(self) -> Sequence[EntryPoint]:
        """Return the entry points that the host lists."""
        return self._entry_points

    def call(self, call: Call) -> Reply:
        """Return the host's answer."""
        self._number += 1
        self._send(wire.encode_call(call, self._number))
        message = self._receive()
        kind = message["message"]
        if kind == "reply":
            return wire.decode_reply(message, call)
        if kind == "raised":
            inputs = message.get("inputs")
            after = None if inputs is None else [wire.decode_array(array) for array in inputs]
            raise FrameworkRaised(message["kind"], message["text"], after)
        if kind == "unsupported":
            raise Unsupported(message["text"], message.get("kind", "adapter"))
        text = f"the adapter itself failed: {message.get('text', message)}"
        raise RuntimeError(text)

    def close(self) -> None:
        """End the process, if it runs."""
        if self._process.returncode is not None:
            return
        with contextlib.suppress(BrokenPipeError):
            self._send({"message": "bye"})
        self._process.communicate()

    def _send(self, message: Mapping[str, Any]) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(wire.dumps(message).encode() + b"\n")
        self._process.stdin.flush()

    def _receive(self) -> Mapping[str, Any]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            self._process.communicate()
            message = f"the host ended with the exit code {self._process.returncode}"
            raise HostDied(message)
        found: Mapping[str, Any] = json.loads(line.decode("utf-8"))
        # These concern limits of time only.
        return self._receive() if found["message"] in ("loading", "starting", "started") else found
