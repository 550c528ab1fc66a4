"""A host that speaks the protocol by itself, and breaks it in one way: `raw_host.py WAY`.

It answers rightly but for the call that asks for a norm of 5.
"""

import json
import os
import sys
import time
from collections.abc import Callable

from one_bad_call import BAD_THRESHOLD, OneBadCall

from gradclip_adapters import wire
from gradclip_adapters.host import describe

WAYS: dict[str, Callable[[dict[str, object]], None]] = {}


def way(function: Callable[[dict[str, object]], None]) -> Callable[[dict[str, object]], None]:
    """Register a way to answer, by the function's name."""
    WAYS[function.__name__] = function
    return function


def send(message: object) -> None:
    """One line."""
    sys.stdout.write(json.dumps(message) + "\n")
    sys.stdout.flush()


@way
def nothing_wrong(right: dict[str, object]) -> None:
    """Answer rightly."""
    send(right)


@way
def wrong_number(right: dict[str, object]) -> None:
    """Answer another call."""
    send({**right, "number": 4711})


@way
def rubbish(right: dict[str, object]) -> None:
    """Print something to the protocol's pipe."""
    print("Loading weights: 100%", flush=True)


@way
def binary(right: dict[str, object]) -> None:
    """Write bytes that are no text."""
    os.write(1, bytes(range(128, 256)) + b"\n")


@way
def json_that_is_no_object(right: dict[str, object]) -> None:
    """Send a list."""
    send([right])


@way
def unknown_message(right: dict[str, object]) -> None:
    """Send a message that the protocol does not have."""
    send({"message": "thought", "number": right["number"]})


@way
def lacks_a_member(right: dict[str, object]) -> None:
    """Leave the gradients out."""
    send({name: value for name, value in right.items() if name != "gradients"})


@way
def nested_without_end(right: dict[str, object]) -> None:
    """Send a list in a list in a list, and so on."""
    print("[" * 100_000 + "]" * 100_000, flush=True)


@way
def too_many_inputs(right: dict[str, object]) -> None:
    """Send more arrays than there were gradients."""
    inputs = right["inputs"]
    assert isinstance(inputs, list)
    send({"message": "raised", "number": right["number"], "kind": "Error", "text": "", "inputs": inputs * 2})


@way
def no_inputs(right: dict[str, object]) -> None:
    """Send fewer arrays than there were gradients."""
    send({**right, "inputs": []})


@way
def text_that_is_null(right: dict[str, object]) -> None:
    """Say nothing of what was raised."""
    send({"message": "raised", "number": right["number"], "kind": "Error", "text": None, "inputs": None})


@way
def says_goodbye(right: dict[str, object]) -> None:
    """Send a message that is no answer."""
    send({"message": "bye"})


@way
def no_base64(right: dict[str, object]) -> None:
    """Send an array that cannot be read."""
    array = {"dtype": "float32", "shape": [1], "data": "**"}
    send({**right, "gradients": [array, array]})


@way
def closes_its_output(right: dict[str, object]) -> None:
    """Close the pipe, and live on."""
    os.close(1)
    time.sleep(3600)


@way
def half_a_line(right: dict[str, object]) -> None:
    """Begin a line, and think."""
    sys.stdout.write('{"message": "reply", ')
    sys.stdout.flush()
    time.sleep(3600)


@way
def half_a_line_and_an_end(right: dict[str, object]) -> None:
    """Begin a line, and end."""
    sys.stdout.write('{"message": "reply", ')
    sys.stdout.flush()
    os._exit(0)


def main(name: str) -> None:
    """Serve."""
    adapter = OneBadCall()
    # The bare minimum of a host: a greeting, and an answer for each call.
    if name == "not_a_greeting":
        print("Welcome to the framework!", flush=True)
        return
    sys.stdin.readline()
    send(describe(adapter))
    if name == "never_reads_again":
        time.sleep(3600)
    for line in sys.stdin:
        message = json.loads(line)
        if message["message"] == "bye":
            return
        call = wire.call_from_json(message)
        right = wire.reply_to_json(adapter.call(call), message["number"])
        WAYS[name if call.options["clip_norm"] == BAD_THRESHOLD else "nothing_wrong"](right)


if __name__ == "__main__":
    main(sys.argv[1])
