"""Speak the protocol without the library's host, and break it in one way: `raw_host.py WAY`.

Every answer is right, except the answer to the call with a threshold of 5.
"""

import json
import os
import sys
import time
from collections.abc import Callable
from typing import Any

from right import Right

from gradclip_adapters import wire
from gradclip_adapters.host import describe


def send(*messages: object) -> None:
    """Write each message as a line."""
    for message in messages:
        print(json.dumps(message), flush=True)


def nothing_wrong(right: dict[str, Any]) -> None:
    send(right)


def wrong_number(right: dict[str, Any]) -> None:
    send({**right, "number": 4711})


def rubbish(right: dict[str, Any]) -> None:
    print("Loading weights: 100%", flush=True)


def binary(right: dict[str, Any]) -> None:
    os.write(1, bytes(range(128, 256)) + b"\n")


def start_slowly(right: dict[str, Any]) -> None:
    """Start processes for a second, and then answer at once."""
    send({"message": "starting"})
    time.sleep(1)
    send({"message": "started"}, right)


def start_and_hang(right: dict[str, Any]) -> None:
    """Start processes, and never answer."""
    send({"message": "starting"}, {"message": "started"})
    time.sleep(3600)


def never_started(right: dict[str, Any]) -> None:
    """Start processes for ever."""
    send({"message": "starting"})
    time.sleep(3600)


def start_again_and_again(right: dict[str, Any]) -> None:
    """Start processes without an end."""
    while True:
        send({"message": "starting"}, {"message": "started"})
        time.sleep(0.01)


def closes_its_output(right: dict[str, Any]) -> None:
    """Close the pipe and keep running."""
    os.close(1)
    time.sleep(3600)


def half_a_line(right: dict[str, Any]) -> None:
    print('{"message": "reply", ', end="", flush=True)
    time.sleep(3600)


def half_a_line_and_an_end(right: dict[str, Any]) -> None:
    print('{"message": "reply", ', end="", flush=True)
    os._exit(0)


def lines_without_an_end(right: dict[str, Any]) -> None:
    piece = b"\n" * (1 << 16)
    while True:
        os.write(1, piece)


#: Functions that spoil a greeting, each under the name of its way.
GREETINGS: dict[str, Callable[[dict[str, Any]], dict[str, Any]]] = {
    "other_protocol": lambda about: {**about, "protocol": 2},
    "many_entry_points": lambda about: {**about, "subjects": about["subjects"] * 10_000},
    "entry_point_twice": lambda about: {**about, "subjects": about["subjects"] * 2},
    "formula_of_no_kind": lambda about: change_entry_point(about, formula={"kind": "x"}),
    "unknown_dtype": lambda about: change_entry_point(about, dtypes=["float31"]),
}


def change_entry_point(about: dict[str, Any], **changes: object) -> dict[str, Any]:
    """Return a greeting with a changed entry point."""
    return {**about, "subjects": [{**about["subjects"][0], **changes}]}


def main(name: str) -> None:
    """Greet the suite and answer its calls."""
    adapter = Right()
    # A minimal host greets and answers each call.
    if name == "not_a_greeting":
        print("Welcome to the framework!", flush=True)
        return
    sys.stdin.readline()
    send(GREETINGS.get(name, dict)(describe(adapter)))
    if name == "never_reads_again":
        time.sleep(3600)
    for line in sys.stdin:
        message = json.loads(line)
        if message["message"] == "bye":
            return
        call = wire.decode_call(message)
        right = wire.encode_reply(adapter.call(call), message["number"])
        globals()[name if call.options["clip_norm"] == 5.0 else "nothing_wrong"](right)


if __name__ == "__main__":
    main(sys.argv[1])
