"""Check that messages satisfy their schemas and read back to the bit, and that those beyond a limit are refused."""

from __future__ import annotations

import json
import math
import re
from pathlib import Path
from typing import Any

import jsonschema
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import gradclip_adapters
from gradclip_adapters import answers, wire
from gradclip_adapters.contract import DTYPES, OPERATIONS, About, Array, Call, EntryPoint, Gradient, Reply
from gradclip_adapters.limits import DEPTH, parse_message
from gradclip_conformance.cases.catalogue import list_all_cases

SCHEMAS = Path(gradclip_adapters.__file__).with_name("schemas")

WIDTHS = {dtype: int(code[-1]) for dtype, code in DTYPES.items()}


def send_through_json(message: Any) -> Any:
    line = wire.dumps(message)
    assert "\n" not in line
    return json.loads(line)


def validate(message: dict[str, Any]) -> None:
    schema = json.loads((SCHEMAS / f"{message['message']}.json").read_text(encoding="utf-8"))
    jsonschema.Draft202012Validator(schema).validate(message)


@st.composite
def draw_arrays(draw: st.DrawFn) -> Array:
    """Draw arrays of any bits, including NaN with payloads."""
    dtype = draw(st.sampled_from(sorted(DTYPES)))
    shape = tuple(draw(st.lists(st.integers(0, 3), max_size=3)))
    size = math.prod(shape) * WIDTHS[dtype]
    return Array(dtype, shape, draw(st.binary(min_size=size, max_size=size)))


OPTION_VALUES = st.one_of(st.floats(), st.booleans(), st.integers(-(2**31), 2**31), st.text(max_size=5), st.none())
GRADIENTS = st.builds(
    Gradient,
    name=st.text(max_size=10),
    array=st.none() | draw_arrays(),
    need_clip=st.booleans(),
    layout=st.sampled_from(["contiguous", "strided", "transposed", "sliced", "reversed", "broadcast"]),
    same_as=st.none() | st.integers(0, 5),
    rows=st.none() | st.lists(st.integers(0, 9), max_size=3).map(tuple),
    height=st.none() | st.integers(1, 9),
)


@given(gradients=st.lists(GRADIENTS, max_size=4), number=st.integers(1, 10**9))
def test_call_reads_back(gradients: list[Gradient], number: int) -> None:
    options = {"clip_norm": math.inf, "norm_type": -0.0, "error_if_nonfinite": True}
    call = Call("fake", tuple(gradients), options)

    message = send_through_json(wire.encode_call(call, number))

    validate(message)
    assert message["number"] == number
    back = wire.decode_call(message)
    # The options are compared as texts, which show the signs of zeros.
    assert (back.subject, back.gradients, repr(back.options)) == (call.subject, call.gradients, repr(options))


@given(value=OPTION_VALUES)
def test_option_reads_back(value: Any) -> None:
    assert repr(wire.decode_value(send_through_json(wire.encode_value(value)))) == repr(value)


@given(gradients=st.lists(st.none() | draw_arrays(), max_size=4), norm=st.none() | draw_arrays(), seen=st.booleans())
def test_reply_reads_back(gradients: list[Array | None], norm: Array | None, seen: bool) -> None:
    reply = Reply(
        gradients=tuple(gradients),
        norm=norm,
        inputs=tuple(reversed(gradients)) if seen else None,
        same_object=tuple(array is None for array in gradients) if seen else None,
        warnings=("UserWarning: ü\n",) if seen else (),
        malformed=None if seen else "returned nothing",
    )

    message = send_through_json(wire.encode_reply(reply, 3))

    validate(message)
    assert wire.decode_reply(message) == reply


def test_about_reads_back_as_a_record_holds_it() -> None:
    formula = {"kind": "coefficient", "eps": 1e-6}
    entry_point = EntryPoint("clip", "clip_by_norm", ("float32",), ("in_place", "norm_type"), (1.0, math.inf), formula)

    message = send_through_json(wire.encode_about(About("f", "1", {"threads": "2"}), [entry_point], "3.7.0", "Linux"))

    validate(message)
    assert [wire.decode_entry_point(one) for one in message["subjects"]] == [entry_point]


def test_words_of_the_schemas_are_those_of_the_contract() -> None:
    schema = json.loads((SCHEMAS / "about.json").read_text(encoding="utf-8"))
    entry_point = schema["$defs"]["subject"]["properties"]

    assert all(re.match(entry_point["operation"]["pattern"], name) for name in OPERATIONS)
    assert entry_point["dtypes"]["items"]["enum"] == list(DTYPES)


def test_number_outside_json_is_never_sent() -> None:
    with pytest.raises(ValueError, match="JSON"):
        wire.dumps({"message": "call", "value": math.nan})


@pytest.mark.parametrize("dtype", ["int64", "bool", "float128", "complex64"])
def test_foreign_dtype_keeps_its_name(dtype: str) -> None:
    array = Array.of(np.ones(2, dtype))

    assert array.dtype == np.dtype(dtype).name
    assert wire.decode_array(send_through_json(wire.encode_array(array))) == array


def test_big_endian_and_strided_arrays_are_packed_in_row_order() -> None:
    values = np.arange(6, dtype=">f4").reshape(2, 3).T

    array = Array.of(values)

    assert array.shape == (3, 2)
    assert array.data == np.array([[0, 3], [1, 4], [2, 5]], "<f4").tobytes()
    assert np.array_equal(array.numpy(), values)


def nest(depth: int) -> str:
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
def test_line_beyond_a_limit_and_json_that_is_not_strict_are_refused(line: str, said: str) -> None:
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
        assert 2 * len(line) < answers.count_answer_line_bytes(call)


def test_ten_million_numbers_are_within_the_limits() -> None:
    # The accuracy table asks for this many. The reply holds them twice: the clipped gradients and the inputs.
    call = Call("fake", (Gradient("g", Array("float64", (10**7,), bytes(8 * 10**7))),))

    assert answers.count_answer_bytes(call) > 2 * 8 * 10**7
    assert answers.count_answer_line_bytes(call) > 2 * 8 * 10**7 * 4 // 3


@pytest.mark.parametrize("lengths", [[-1], [True], [1.0], ["1"], [None], [1 << 41], [1] * 65])
def test_invalid_shape_is_refused(lengths: list[Any]) -> None:
    with pytest.raises(ValueError, match=r"not the length of an axis|the limit is"):
        wire.decode_array({"dtype": "int64", "shape": lengths, "data": ""})


def test_length_is_checked_before_the_data_are_decoded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wire.base64, "b64decode", lambda *_, **__: pytest.fail("decoded"))

    with pytest.raises(ValueError, match=r"bytes, more or less, for shape \(1000, 1000\) of float32"):
        wire.decode_array({"dtype": "float32", "shape": [1000, 1000], "data": "AAAA"})


@pytest.mark.parametrize("data", ["****", "AAA", "AAAAAA=", "ÄÄÄÄÄÄ==", "AAAAAAAAAAA!="])
def test_invalid_base64_is_refused(data: str) -> None:
    with pytest.raises(ValueError, match=r".+"):
        wire.decode_array({"dtype": "float32", "shape": [1], "data": data})


@pytest.mark.parametrize("text", ["0x1p+99999", "0x1p2000", "0x" + "1" * 50, "", "one", 7])
def test_invalid_hexadecimal_float_is_refused(text: Any) -> None:
    with pytest.raises(ValueError, match=r".+"):
        wire.decode_value({"hex": text})
