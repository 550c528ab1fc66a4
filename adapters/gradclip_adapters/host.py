"""The host process: an adapter behind standard input and output, one JSON line a message (see `wire`).

Run as `python -m gradclip_adapters.host TARGET` where the package is installed, or through `launch.py` in a Python
that knows nothing of it. Nothing but messages reaches standard output: the descriptor is kept aside before any
framework is imported, and whatever is printed later, by C code too, goes to standard error.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
import traceback
from typing import IO, Any, Dict, List, Mapping, Optional, Tuple

from . import registry, wire
from .contract import Adapter, FrameworkRaised, Unsupported

__all__ = ["answer", "describe", "main"]


def main(arguments: Optional[List[str]] = None) -> int:
    """Serve one adapter until the suite says goodbye or closes the pipe."""
    parser = argparse.ArgumentParser(prog="gradclip_adapters.host", description=__doc__)
    parser.add_argument("target", help="an adapter's name, a file, or module:function")
    parser.add_argument("--op", dest="operation", help="for a plain function: the operation it performs")
    parser.add_argument("--dtype", dest="dtypes", action="append", help="for a plain function: a dtype to call it with")
    options = parser.parse_args(arguments)

    messages_in, messages_out = _private_streams()
    if _greeting_is_wrong(messages_in, messages_out):
        return 1
    try:
        adapter = registry.resolve(options.target, options.operation, options.dtypes)
        about = describe(adapter)
    except Exception as error:
        kind = {registry.BadTarget: "bad-target", registry.MissingFramework: "missing-framework"}
        text = str(error) if type(error) in kind else traceback.format_exc()
        _send(messages_out, {"message": "failed", "kind": kind.get(type(error), "broken-adapter"), "text": text})
        return 1
    _send(messages_out, about)
    for line in messages_in:
        message = json.loads(line)
        if message["message"] == "bye":
            break
        _send(messages_out, answer(adapter, message))
    return 0


def describe(adapter: Adapter) -> Dict[str, Any]:
    """The message `about`: the framework, where it runs, and its subjects."""
    return wire.about_to_json(adapter.about(), adapter.subjects(), platform.python_version(), platform.platform())


def answer(adapter: Adapter, message: Mapping[str, Any]) -> Dict[str, Any]:
    """One call's answer: a reply, what the framework raised, what is unsupported, or the adapter's own mistake."""
    number = message["number"]
    try:
        return wire.reply_to_json(adapter.call(wire.call_from_json(message)), number)
    except Unsupported as error:
        return {"message": "unsupported", "number": number, "text": str(error)}
    except FrameworkRaised as error:
        return {
            "message": "raised",
            "number": number,
            "kind": error.kind,
            "text": error.text,
            "inputs": wire.arrays_to_json(error.inputs),
        }
    except Exception:
        return {"message": "mistake", "number": number, "text": traceback.format_exc()}


def _private_streams() -> Tuple[IO[str], IO[str]]:
    """The pipes to the suite, out of reach of everything that prints."""
    sys.stdout.flush()
    messages_in = os.fdopen(os.dup(0), "r", encoding="utf-8")
    messages_out = os.fdopen(os.dup(1), "w", encoding="utf-8")
    nowhere = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nowhere, 0)
    os.dup2(2, 1)
    sys.stdin = open(os.devnull, encoding="utf-8")  # noqa: SIM115 - for the life of the process
    return messages_in, messages_out


def _greeting_is_wrong(messages_in: IO[str], messages_out: IO[str]) -> bool:
    line = messages_in.readline()
    if not line:
        return True
    protocol = json.loads(line).get("protocol")
    if protocol == wire.PROTOCOL:
        return False
    text = "This host speaks protocol {}, the suite {}: install the same gradclip-spec on both sides.".format(
        wire.PROTOCOL, protocol
    )
    _send(messages_out, {"message": "failed", "kind": "protocol", "text": text})
    return True


def _send(stream: IO[str], message: Mapping[str, Any]) -> None:
    stream.write(wire.dumps(message) + "\n")
    stream.flush()


if __name__ == "__main__":
    sys.exit(main())
