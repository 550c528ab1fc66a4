"""Speak the protocol without the library's host, and break it in one way: `raw_host.py WAY`.

Every answer is right, except the answer to the call with a threshold of 5.
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


def register_way(function: Callable[[dict[str, object]], None]) -> Callable[[dict[str, object]], None]:
    """Register a way to answer under the function's name."""
    WAYS[function.__name__] = function
    return function


def send(message: object) -> None:
    """Write one message as a line."""
    sys.stdout.write(json.dumps(message) + "\n")
    sys.stdout.flush()


@register_way
def nothing_wrong(right: dict[str, object]) -> None:
    """Send the right answer."""
    send(right)


@register_way
def wrong_number(right: dict[str, object]) -> None:
    """Send the answer with another call's number."""
    send({**right, "number": 4711})


@register_way
def rubbish(right: dict[str, object]) -> None:
    """Print a progress bar to the protocol's pipe."""
    print("Loading weights: 100%", flush=True)


@register_way
def binary(right: dict[str, object]) -> None:
    """Write bytes that are not text."""
    os.write(1, bytes(range(128, 256)) + b"\n")


@register_way
def start_slowly(right: dict[str, object]) -> None:
    """Start processes for a second, and then answer at once."""
    send({"message": "starting"})
    time.sleep(1)
    send({"message": "started"})
    send(right)


@register_way
def start_and_hang(right: dict[str, object]) -> None:
    """Start processes, and never answer."""
    del right
    send({"message": "starting"})
    send({"message": "started"})
    time.sleep(3600)


@register_way
def never_started(right: dict[str, object]) -> None:
    """Start processes for ever."""
    del right
    send({"message": "starting"})
    time.sleep(3600)


@register_way
def start_again_and_again(right: dict[str, object]) -> None:
    """Start processes without an end."""
    del right
    while True:
        send({"message": "starting"})
        send({"message": "started"})
        time.sleep(0.01)


@register_way
def closes_its_output(right: dict[str, object]) -> None:
    """Close the pipe and keep running."""
    os.close(1)
    time.sleep(3600)


@register_way
def half_a_line(right: dict[str, object]) -> None:
    """Write half a line and wait."""
    sys.stdout.write('{"message": "reply", ')
    sys.stdout.flush()
    time.sleep(3600)


@register_way
def half_a_line_and_an_end(right: dict[str, object]) -> None:
    """Write half a line and exit."""
    sys.stdout.write('{"message": "reply", ')
    sys.stdout.flush()
    os._exit(0)


@register_way
def lines_without_an_end(right: dict[str, object]) -> None:
    """Write empty lines without an end."""
    piece = b"\n" * (1 << 16)
    while True:
        os.write(1, piece)


#: Functions that spoil a greeting, each under the name of its way.
GREETINGS: dict[str, Callable[[dict[str, object]], dict[str, object]]] = {
    "other_protocol": lambda about: {**about, "protocol": 2},
    "many_subjects": lambda about: {**about, "subjects": get_subjects(about) * 10_000},
    "subject_twice": lambda about: {**about, "subjects": get_subjects(about) * 2},
    "formula_of_no_kind": lambda about: change_subject(about, formula={"kind": "x"}),
    "unknown_dtype": lambda about: change_subject(about, dtypes=["float31"]),
}


def get_subjects(about: dict[str, object]) -> list[dict[str, object]]:
    """Return the subjects of a greeting."""
    subjects = about["subjects"]
    assert isinstance(subjects, list)
    return subjects


def change_subject(about: dict[str, object], **changes: object) -> dict[str, object]:
    """Return a greeting with a changed subject."""
    return {**about, "subjects": [{**get_subjects(about)[0], **changes}]}


def main(name: str) -> None:
    """Greet the suite and answer its calls."""
    adapter = OneBadCall()
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
        WAYS[name if call.options["clip_norm"] == BAD_THRESHOLD else "nothing_wrong"](right)


if __name__ == "__main__":
    main(sys.argv[1])
