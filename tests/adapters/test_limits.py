"""Check that messages that exceed a limit or are not strict JSON are refused, and that all others are read."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gradclip_adapters import answer_size, limits, wire
from gradclip_adapters.contract import Array, Call, Gradient
from gradclip_adapters.limits import DEPTH, LimitExceeded, parse_message, shorten
from gradclip_conformance.cases.catalogue import list_all_cases


def nest(depth: int) -> str:
    """Return a message with this many levels of nesting."""
    return '{"a":' * depth + "0" + "}" * depth


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (nest(DEPTH.number + 1), "17 levels of nesting"),
        ("[" * 1_000_000, "values in a message|levels of nesting"),
        ("]" * 1_000_001, "1,000,001 values in a message"),
        ('{"a": [' + "0," * 1_000_001 + "0]}", "1,000,002 values|1,000,003 values"),
        ('{"a": 1' + "0" * 5000 + "}", "More than 40 digits in a number"),
        ('{"shape": [' + "1," * 64 + "1]}", "65 axes in a shape"),
        ('{"text": "' + "x" * 100_001 + '"}', "100,001 characters in a text"),
        ('{"warnings": ["' + "x" * 100_001 + '"]}', "100,001 characters in a text"),
        ('{"name": "' + "x" * 301 + '"}', "301 characters in a name"),
        ('{"' + "x" * 301 + '": 0}', "301 characters in a name"),
        ('{"hex": "' + "0" * 41 + '"}', "41 characters in a hexadecimal float"),
    ],
    ids=lambda value: value[:20],
)
def test_limit_is_named(line: str, said: str) -> None:
    with pytest.raises(LimitExceeded, match=said):
        parse_message(line)


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ('{"a": NaN}', "the number NaN is not sent exactly"),
        ('{"a": -Infinity}', "the number -Infinity is not sent exactly"),
        ('{"a": 1e400}', "the number 1e400 is not sent exactly"),
        ('{"a": 0, "a": 1}', "the key 'a' occurs twice"),
        ('{"b": {"a": 0, "a": 1}}', "the key 'a' occurs twice"),
        ("[]", "not a JSON object"),
        ("", "not JSON"),
        ('"' + '\\"' * 100_000, "not JSON"),
        ('{"a": "' + "\\\\" * 100_000, "not JSON"),
    ],
    ids=lambda value: value[:20],
)
def test_json_that_is_not_strict_is_refused(line: str, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        parse_message(line)


def test_brackets_and_digits_in_texts_do_not_count() -> None:
    text = '[{"\\' * 1000 + "1" * 1000

    assert parse_message(json.dumps({"a": text})) == {"a": text}
    assert parse_message(nest(DEPTH.number))


@settings(max_examples=30)
@given(st.dictionaries(st.text(max_size=9), st.text() | st.integers(-(2**53), 2**53) | st.booleans() | st.none()))
def test_messages_within_the_limits_read_back(message: dict[str, Any]) -> None:
    message.pop("shape", None)

    assert parse_message(json.dumps(message)) == message


def test_every_case_is_within_the_limits() -> None:
    for case in list_all_cases():
        call = case.call("fake")
        line = wire.dumps(wire.encode_call(call, 1))
        back = wire.decode_call(parse_message(line))
        # The options are compared as texts, because NaN does not equal itself.
        assert (back.gradients, repr(back.options)) == (call.gradients, repr(dict(call.options)))
        assert 2 * len(line) < answer_size.count_answer_line_bytes(call)


def test_ten_million_numbers_are_within_the_limits() -> None:
    # The accuracy table asks for this many. The reply holds them twice: the clipped gradients and the inputs.
    call = Call("fake", (Gradient("g", Array("float64", (10**7,), bytes(8 * 10**7))),))

    assert answer_size.count_answer_bytes(call) > 2 * 8 * 10**7
    assert answer_size.count_answer_line_bytes(call) > 2 * 8 * 10**7 * 4 // 3


@pytest.mark.parametrize("lengths", [[-1], [True], [1.0], ["1"], [None], [1 << 41], [1] * 65])
def test_invalid_shape_is_refused(lengths: list[Any]) -> None:
    with pytest.raises(ValueError, match=r"not the length of an axis|the limit is"):
        wire.decode_array({"dtype": "int64", "shape": lengths, "data": ""})


def test_length_is_checked_before_the_data_are_decoded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wire.base64, "b64decode", lambda *_, **__: pytest.fail("decoded"))

    with pytest.raises(ValueError, match=r"bytes, more or less, for shape \(1000, 1000\) of float32"):
        wire.decode_array({"dtype": "float32", "shape": [1000, 1000], "data": "AAAA"})


@pytest.mark.parametrize("data", ["****", "AAA", "AAAAAA=", "ÄÄÄÄÄÄ==", "AAAAAAAAAA!="])
def test_invalid_base64_is_refused(data: str) -> None:
    with pytest.raises(ValueError, match=r".+"):
        wire.decode_array({"dtype": "float32", "shape": [1], "data": data})


@pytest.mark.parametrize("text", ["0x1p+99999", "0x1p2000", "0x" + "1" * 50, "", "one", 7])
def test_invalid_hexadecimal_float_is_refused(text: Any) -> None:
    with pytest.raises(ValueError, match=r".+"):
        wire.decode_value({"hex": text})


def test_long_text_keeps_its_ends() -> None:
    shown = shorten("a" * 50_000 + "b" * 50_000)

    assert len(shown) <= limits.SHOWN_TEXT.number
    assert shown.startswith("aaa")
    assert shown.endswith("bbb")
    assert "characters left out" in shown
    assert shorten("short") == "short"
