"""Check how the suite reads texts from outside: answers of hosts, pipes, arrays of records, and patterns of names."""

from __future__ import annotations

import io
import itertools
import json
import os
import re
import threading
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
from gradclip_conformance.run.pipes import TAIL_BYTES, UNASKED_LINES, LineReader, PipeFlooded, Tail

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


def make_reader(text: bytes, limit: int = 100) -> LineReader:
    """Return a reader of a pipe that holds this text, after the reader has finished."""
    readable, writable = os.pipe()
    with os.fdopen(writable, "wb") as stream:
        stream.write(text)
    reader = LineReader()
    before = set(threading.enumerate())
    reader.start(os.fdopen(readable, "rb"), limit)
    for thread in set(threading.enumerate()) - before:
        thread.join()
    return reader


def test_lines_come_one_by_one_and_then_the_end() -> None:
    reader = make_reader("one\n\nzwölf\nhalf".encode())

    assert [reader.read(1) for _ in range(5)] == ["one\n", "\n", "zwölf\n", "half", None]


@pytest.mark.parametrize("end", [b"", b"\n"])
def test_line_longer_than_its_limit_is_refused(end: bytes) -> None:
    with pytest.raises(PipeFlooded, match="a line of more than 100 bytes"):
        make_reader(b"x" * 101 + end).read(1)


def test_unrequested_lines_are_refused() -> None:
    reader = make_reader(b"x\n" * 1000)

    assert [reader.read(1) for _ in range(UNASKED_LINES)] == ["x\n"] * UNASKED_LINES
    with pytest.raises(PipeFlooded, match="unrequested lines"):
        reader.read(1)


def test_tail_keeps_only_the_last_lines() -> None:
    readable, writable = os.pipe()
    tail = Tail()
    tail.start(os.fdopen(readable, "rb"), lambda: None)
    with os.fdopen(writable, "wb") as stream:
        stream.write(b"x" * 10 * TAIL_BYTES + b"\n\nlast words\n")
    tail._ended.wait()

    assert tail.list_last_lines(1) == ["last words"]
    assert len(tail._kept) <= TAIL_BYTES


def test_host_that_writes_to_standard_error_without_an_end_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gradclip_conformance.run.pipes.ERROR_BYTES", 100_000)
    tail, ended = Tail(), threading.Event()

    def write(count: int) -> None:
        tail._run(io.BufferedReader(io.BytesIO(b"x" * count)), ended.set)

    for _ in range(3):
        tail.begin()
        write(90_000)
    assert not ended.is_set()
    write(10_001)

    assert ended.is_set()
    assert "100,000 bytes to standard error" in tail.flooded
