"""Check how the suite reads texts from outside: answers of hosts, arrays of records, and patterns of names."""

from __future__ import annotations

import itertools
import json
import re
from typing import Any

import numpy as np
import pytest

from gradclip_adapters.contract import Array, Call, Gradient, Reply
from gradclip_adapters.wire import encode_arrays, encode_reply
from gradclip_conformance.cases.literals import NoScript, write_literal
from gradclip_conformance.cases.patterns import matches
from gradclip_conformance.cases.readable import read_shown_array, show_array
from gradclip_conformance.judge.model import Answer, Died, Mistaken, NotSupported, Raised, Replied
from gradclip_conformance.run.messages import read_answer

ARRAY = Array.of(np.array([3.0, 4.0], np.float32))
CALL = Call("clip", (Gradient("a", ARRAY), Gradient("b", None)), {"clip_norm": 1.0})
NO_BASE64 = {"dtype": "float32", "shape": [2], "data": "!!!!!!!!!!!="}
RAISED = {"message": "raised", "number": 7, "kind": "ValueError", "text": "no"}


def read(message: dict[str, Any] | str) -> Answer:
    """Return the answer to call 7 that the suite reads from a line."""
    return read_answer(message if isinstance(message, str) else json.dumps(message), 7, CALL)


def test_answers_are_read() -> None:
    reply = Reply((ARRAY, None), inputs=(ARRAY, None))

    assert read(encode_reply(reply, 7)) == Replied(reply)
    assert read({**RAISED, "inputs": encode_arrays([ARRAY, None])}) == Raised("ValueError", "no", (ARRAY, None))
    unsupported = {"message": "unsupported", "number": 7, "text": "no half", "kind": "kernel"}
    assert read(unsupported) == NotSupported("no half", "kernel")
    assert read({"message": "mistake", "number": 7, "text": "a fault"}) == Mistaken("a fault")


@pytest.mark.parametrize(
    ("message", "says"),
    [
        ({**RAISED, "inputs": None, "number": 6}, "answered call 6 when it was asked call 7"),
        ({"message": "loading", "number": 7, "target": "x", "python": "3", "platform": "p"}, "is not a"),
        ({**RAISED, "inputs": encode_arrays([ARRAY])}, "1 `inputs` for a call of 2 gradients"),
        (encode_reply(Reply((ARRAY, None), inputs=(ARRAY,)), 7), "1 `inputs` for a call of 2 gradients"),
        # The schema of a message does not decode arrays. Reading them does.
        ({**RAISED, "inputs": [NO_BASE64, None]}, "The host's answer is not a message"),
        (encode_reply(Reply((ARRAY, None)), 7) | {"norm": NO_BASE64}, "The host's answer is not a message"),
        ("no JSON", "The host's answer is not a message"),
        ({"message": "thought", "number": 7}, "it has no known `message`"),
        ({"message": "reply", "number": 7}, "gradients"),
        ({"message": "bye"}, "answered call None"),
        ({**RAISED, "text": None, "inputs": None}, "$.text must be string"),
        ({**encode_reply(Reply((ARRAY, None)), 7), "warnings": ["x"] * 10_000}, "10,000 warnings in a message"),
    ],
    ids=lambda value: str(value)[:30],
)
def test_answer_that_breaks_the_protocol_counts_as_a_death(message: dict[str, Any] | str, says: str) -> None:
    answer = read(message)

    assert isinstance(answer, Died)
    assert says in answer.text


def test_array_of_a_record_is_read_back_exactly() -> None:
    for array in (None, ARRAY, Array.of(np.array(0.5)), Array.of(np.full((2, 1), np.nan, np.float16))):
        assert read_shown_array(show_array(array)) == array


def test_value_without_a_literal_is_refused() -> None:
    assert write_literal([None, True, 1.5, 'a"b']) == '[None, True, 1.5, "a\\"b"]'
    assert write_literal({"replica": 2, 'a"b': [None]}) == '{"replica": 2, "a\\"b": [None]}'
    with pytest.raises(NoScript, match="cannot hold a value of the type set"):
        write_literal([{1}])


@pytest.mark.parametrize("length", range(6))
def test_star_stands_for_any_text(length: int) -> None:
    names = ["".join(letters) for count in range(5) for letters in itertools.product("ab", repeat=count)]
    for pattern in itertools.product("ab*", repeat=length):
        expression = re.compile("".join(".*" if letter == "*" else letter for letter in pattern))
        for name in names:
            assert matches("".join(pattern), name) is (expression.fullmatch(name) is not None), (pattern, name)


def test_brackets_and_dots_are_not_special() -> None:
    assert matches("f[x=*].", "f[x=1].")
    assert not matches("f[x]", "fx")
    assert not matches(".", "x")


def test_many_stars_take_linear_time() -> None:
    # A regular expression would exceed the time limit of the test.
    assert not matches("*a" * 100 + "*b", "a" * 300)
    assert matches("*a" * 100 + "*b", "a" * 300 + "b")
