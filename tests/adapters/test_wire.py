"""Check that messages satisfy their schemas, and that reading them gives back every bit of what was written."""

from __future__ import annotations

import json
import math
import re
from pathlib import Path
from typing import Any

import jsonschema
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import gradclip_adapters
from gradclip_adapters import wire
from gradclip_adapters.contract import DTYPES, OPERATIONS, About, Array, Call, EntryPoint, Gradient, Reply

SCHEMAS = Path(gradclip_adapters.__file__).with_name("schemas")

WIDTHS = {dtype: int(code[-1]) for dtype, code in DTYPES.items()}


def send_through_json(message: Any) -> Any:
    """Return the message that arrives at the other end."""
    line = wire.dumps(message)
    assert "\n" not in line
    return json.loads(line)


def validate(message: dict[str, Any]) -> None:
    """Check a message against its schema."""
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
)


def are_same_options(first: dict[str, Any], second: dict[str, Any]) -> bool:
    """Return whether options are equal. NaN equals NaN, and the signs of zeros must agree."""
    return list(first) == list(second) and all(repr(first[name]) == repr(second[name]) for name in first)


@given(array=draw_arrays())
def test_array_keeps_its_bits(array: Array) -> None:
    assert wire.decode_array(send_through_json(wire.encode_array(array))) == array


@given(gradients=st.lists(GRADIENTS, max_size=4), number=st.integers(1, 10**9))
def test_call_reads_back(gradients: list[Gradient], number: int) -> None:
    options = {"clip_norm": math.inf, "norm_type": -0.0, "error_if_nonfinite": True}
    call = Call("fake", tuple(gradients), options)

    message = send_through_json(wire.encode_call(call, number))

    validate(message)
    assert message["number"] == number
    back = wire.decode_call(message)
    assert (back.subject, back.gradients) == (call.subject, call.gradients)
    assert are_same_options(dict(back.options), options)


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


@pytest.mark.parametrize(("rows", "height"), [((4, 0), 5), (None, 1)])
def test_numbers_of_rows_read_back(rows: tuple[int, ...] | None, height: int) -> None:
    gradient = Gradient("g", Array.of(np.ones((2, 3), np.float32)), rows=rows, height=height)
    call = Call("fake", (gradient,), {})

    message = send_through_json(wire.encode_call(call, 1))

    validate(message)
    assert wire.decode_call(message) == call


def test_about_reads_back_as_a_record_holds_it() -> None:
    formula = {"kind": "coefficient", "eps": 1e-6}
    subject = EntryPoint("clip", "clip_by_norm", ("float32",), ("in_place", "norm_type"), (1.0, math.inf), formula)

    message = send_through_json(wire.encode_about(About("f", "1", {"threads": "2"}), [subject], "3.7.0", "Linux"))

    validate(message)
    assert [wire.decode_subject(one) for one in message["subjects"]] == [subject]


def test_words_of_the_schemas_are_those_of_the_contract() -> None:
    schema = json.loads((SCHEMAS / "about.json").read_text(encoding="utf-8"))
    subject = schema["$defs"]["subject"]["properties"]

    assert all(re.match(subject["operation"]["pattern"], name) for name in OPERATIONS)
    assert subject["dtypes"]["items"]["enum"] == list(DTYPES)


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


def test_received_array_is_read_only() -> None:
    array = Array.of(np.zeros(2, np.float32))
    array.numpy()[:] = 1

    assert array.data == bytes(8)
