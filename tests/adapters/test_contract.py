"""Check that declarations and replies that break the contract are refused, with a sentence for the adapter's author."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pytest

from gradclip_adapters import wire
from gradclip_adapters.contract import (
    About,
    Adapter,
    Array,
    BadDeclaration,
    BadReply,
    Call,
    EntryPoint,
    Gradient,
    Reply,
    read_text,
)
from gradclip_adapters.host import answer

ARRAY = Array.of(np.array([3.0, 4.0], np.float32))
REPLY = Reply((ARRAY,), norm=ARRAY, inputs=(ARRAY,), same_object=(True,), warnings=("UserWarning: text",))
ENTRY_POINT = EntryPoint("clip", "clip_by_norm", ("float32",))
CALL = Call("clip", (Gradient("g", ARRAY),), {"clip_norm": 1.0})


def describe(**fields: Any) -> About:
    return About(**{"framework": "fake", "version": "", **fields})


change = partial(replace, ENTRY_POINT)


@pytest.mark.parametrize(
    ("declare", "said"),
    [
        (partial(change, operation="clip"), "operation 'clip', which does not exist; there are clip_by_value"),
        (partial(change, dtypes=("float32", "int8")), "declares the dtype 'int8'"),
        (partial(change, features=("in_place", "inplace")), "declares the feature 'inplace'"),
        (partial(change, norm_types=(2.0, 0.0)), "declares a norm of order 0.0"),
        (partial(change, norm_types=(math.nan,)), "declares a norm of order nan"),
        (partial(change, norm_types=("two",)), "declares a norm of order 'two'"),
        (partial(change, name=""), "The entry point is called ''"),
        (partial(change, name="two\nlines"), "a name is printable text"),
        (partial(change, name="x" * 301), "of 1 to 300 characters"),
        (partial(change, name=7), "The entry point is called 7"),
        (partial(describe, framework=""), "The framework is called ''"),
        (partial(describe, version="1\n2"), "The version is called"),
        (partial(describe, environment={"threads": 2}), "entry 'threads' is a int, and must be a text."),
        (partial(describe, environment={"": "x"}), "The environment's entry is called ''"),
        (partial(describe, environment={"python": "3"}), "names 'python', which the suite finds out by itself"),
        (partial(wire.check_entry_points, [ENTRY_POINT, ENTRY_POINT]), "The entry point 'clip' is declared twice"),
        (partial(wire.check_entry_points, ["clip"]), "must return EntryPoint objects"),
    ],
    ids=lambda value: str(value)[:30],
)
def test_wrong_declaration_is_refused(declare: Callable[[], Any], said: str) -> None:
    with pytest.raises(BadDeclaration) as caught:
        declare()

    assert said in str(caught.value)


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"gradients": ARRAY}, "Reply.gradients is a gradclip_adapters.contract.Array, and must be a tuple"),
        ({"gradients": (np.zeros(2),)}, "Reply.gradients[0] is a numpy.ndarray; wrap it: Array.of(...)"),
        ({"norm": 5.0}, "Reply.norm is a float; wrap it: Array.of(...)"),
        ({"inputs": (None, [1.0])}, "Reply.inputs[1] is a list"),
        ({"same_object": (1,)}, "Reply.same_object must be a tuple of bool"),
        ({"warnings": "text"}, "Reply.warnings must be a tuple of str"),
        ({"malformed": 7}, "Reply.malformed is a int, and must be a text or None"),
    ],
    ids=lambda value: str(value)[:30],
)
def test_wrong_reply_is_a_mistake_that_names_the_field(fields: dict[str, Any], said: str) -> None:
    class Fake(Adapter):
        def call(self, call: Call) -> Reply:
            return replace(REPLY, **fields)

    message = answer(Fake(), wire.encode_call(CALL, 1))

    assert message["message"] == "mistake"
    assert said in message["text"]


def test_right_reply_is_accepted() -> None:
    wire.check_reply(REPLY)
    assert wire.decode_reply(wire.encode_reply(REPLY, 1)) == REPLY
    with pytest.raises(BadReply, match="and returned a list"):
        wire.check_reply([ARRAY])


@pytest.mark.parametrize(
    ("text", "read"),
    [
        (
            'In user code:\n\n    File "/me/a.py", line 7, in f\n      g()\n    File "<s>", line 1, in h\n\n  E: no',
            "In user code:\n\n\n  E: no",
        ),
        (
            "C++ Call Stacks:\n0   std::string Trace(char const*, int)\n12  Run()\n\nError: 2  of 3",
            "C++ Call Stacks:\n\nError: 2  of 3",
        ),
        (
            "Check failed\nStack trace:\n  [bt] (0) /opt/libmxnet.so(+0x6d39db) [0x7f]\n  [bt] (1) python(_f+0x1)",
            "Check failed\nStack trace:\n",
        ),
        ('Traceback:\n  File "../src/concat.cc", line 151\nMXNetError: no', None),
        ("nothing of a stack", None),
        (
            "no kernel for node clip/truediv (defined at /venv/lib/ops.py:1748) , sorry",
            "no kernel for node clip/truediv , sorry",
        ),
    ],
)
def test_text_of_an_exception_has_no_lines_of_stack_traces(text: str, read: str | None) -> None:
    assert read_text(ValueError(text)) == (text if read is None else read)


def test_adapter_without_methods_says_which_are_missing() -> None:
    for ask in (Adapter().about, Adapter().subjects):
        with pytest.raises(NotImplementedError):
            ask()
    assert "NotImplementedError" in answer(Adapter(), wire.encode_call(CALL, 1))["text"]
