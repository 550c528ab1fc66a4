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
def json_that_is_no_object(right: dict[str, object]) -> None:
    """Send a list instead of an object."""
    send([right])


@register_way
def unknown_message(right: dict[str, object]) -> None:
    """Send a message whose kind does not exist."""
    send({"message": "thought", "number": right["number"]})


@register_way
def lacks_a_member(right: dict[str, object]) -> None:
    """Leave the gradients out of the reply."""
    send({name: value for name, value in right.items() if name != "gradients"})


@register_way
def nested_without_end(right: dict[str, object]) -> None:
    """Send 100,000 nested lists."""
    print("[" * 100_000 + "]" * 100_000, flush=True)


@register_way
def too_many_inputs(right: dict[str, object]) -> None:
    """Send more input arrays than there were gradients."""
    inputs = right["inputs"]
    assert isinstance(inputs, list)
    send({"message": "raised", "number": right["number"], "kind": "Error", "text": "", "inputs": inputs * 2})


@register_way
def no_inputs(right: dict[str, object]) -> None:
    """Send fewer input arrays than there were gradients."""
    send({**right, "inputs": []})


@register_way
def text_that_is_null(right: dict[str, object]) -> None:
    """Send null as the text of an error."""
    send({"message": "raised", "number": right["number"], "kind": "Error", "text": None, "inputs": None})


@register_way
def says_goodbye(right: dict[str, object]) -> None:
    """Send a message that is not an answer."""
    send({"message": "bye"})


@register_way
def no_base64(right: dict[str, object]) -> None:
    """Send an array that is not valid base64."""
    array = {"dtype": "float32", "shape": [1], "data": "**"}
    send({**right, "gradients": [array, array]})


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
def line_without_an_end(right: dict[str, object]) -> None:
    """Write one line without an end."""
    piece = b"0" * (1 << 20)
    while True:
        os.write(1, piece)


@register_way
def lines_without_an_end(right: dict[str, object]) -> None:
    """Write empty lines without an end."""
    piece = b"\n" * (1 << 16)
    while True:
        os.write(1, piece)


@register_way
def standard_error_without_a_newline(right: dict[str, object]) -> None:
    """Write 200 MB without a newline to standard error, then answer."""
    for _ in range(200):
        os.write(2, b"0" * (1 << 20))
    send(right)


@register_way
def shape_of_many_axes(right: dict[str, object]) -> None:
    """Send an array of 200,000 axes."""
    send(put_array(right, {"dtype": "float32", "shape": [1] * 200_000, "data": "AAAAAA=="}))


@register_way
def axis_below_zero(right: dict[str, object]) -> None:
    """Send an array with a negative length in its shape."""
    send(put_array(right, {"dtype": "float32", "shape": [-1, -1], "data": "AAAAAA=="}))


@register_way
def axis_that_is_true(right: dict[str, object]) -> None:
    """Send an array with a boolean in its shape."""
    send(put_array(right, {"dtype": "float32", "shape": [True], "data": "AAAAAA=="}))


@register_way
def axis_beyond_all_memory(right: dict[str, object]) -> None:
    """Send an array that no memory holds, in a dtype that the protocol does not have."""
    send(put_array(right, {"dtype": "int64", "shape": [1 << 50], "data": ""}))


@register_way
def text_without_an_end(right: dict[str, object]) -> None:
    """Send an error message of 10 MB."""
    send({"message": "raised", "number": right["number"], "kind": "Error", "text": "x" * 10_000_000, "inputs": None})


@register_way
def warning_without_an_end(right: dict[str, object]) -> None:
    """Send a warning of 10 MB."""
    send({**right, "warnings": ["x" * 10_000_000]})


@register_way
def warnings_without_number(right: dict[str, object]) -> None:
    """Send 10,000 warnings."""
    send({**right, "warnings": ["x"] * 10_000})


@register_way
def nested_450_times(right: dict[str, object]) -> None:
    """Send nesting that the JSON parser accepts but that recursive code does not survive."""
    print('{"message": "reply", "gradients": ' + "[" * 450 + "]" * 450 + "}", flush=True)


@register_way
def number_of_many_digits(right: dict[str, object]) -> None:
    """Send an integer of 4,001 digits, which takes long to print."""
    print('{"message": "reply", "number": 1' + "0" * 4000 + "}", flush=True)


@register_way
def number_that_is_none(right: dict[str, object]) -> None:
    """Send NaN, which is not JSON although Python's parser reads it."""
    print(json.dumps({**right, "norm": float("nan")}), flush=True)


@register_way
def key_that_stands_twice(right: dict[str, object]) -> None:
    """Send an object with the same key twice."""
    text = json.dumps(right)
    print(text[:-1] + ', "gradients": []}', flush=True)


#: Functions that spoil a greeting, each under the name of its way.
GREETINGS: dict[str, Callable[[dict[str, object]], dict[str, object]]] = {
    "other_protocol": lambda about: {**about, "protocol": 2},
    "environment_that_overrides": lambda about: {**about, "environment": {"python": "4.0"}},
    "many_subjects": lambda about: {**about, "subjects": get_subjects(about) * 10_000},
    "subject_twice": lambda about: {**about, "subjects": get_subjects(about) * 2},
    "norm_type_nan": lambda about: change_subject(about, norm_types=["nan"]),
    "norm_type_beyond_range": lambda about: change_subject(about, norm_types=["0x1p+99999"]),
    "unknown_feature": lambda about: change_subject(about, features=["exclude"]),
    "unknown_operation": lambda about: change_subject(about, operation="clip"),
    "formula_of_no_kind": lambda about: change_subject(about, formula={"kind": "x"}),
    "unknown_dtype": lambda about: change_subject(about, dtypes=["float31"]),
    "name_of_two_lines": lambda about: {**about, "framework": "fake\n[[known]]"},
    "name_without_an_end": lambda about: {**about, "version": "1" * 1_000_000},
}


def get_subjects(about: dict[str, object]) -> list[dict[str, object]]:
    """Return the subjects of a greeting."""
    subjects = about["subjects"]
    assert isinstance(subjects, list)
    return subjects


def change_subject(about: dict[str, object], **changes: object) -> dict[str, object]:
    """Return a greeting with a changed subject."""
    return {**about, "subjects": [{**get_subjects(about)[0], **changes}]}


def put_array(right: dict[str, object], array: dict[str, object]) -> dict[str, object]:
    """Return a reply that holds this array twice."""
    return {**right, "gradients": [array, array]}


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
