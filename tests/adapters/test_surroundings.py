"""Check calls that change the state of the process. Each call gets a reply that says what the call changed."""

from __future__ import annotations

import os
import random
from typing import Any

import numpy as np
import pytest

from gradclip_adapters import host
from gradclip_adapters.contract import About, Adapter, Array, Call, EntryPoint, Gradient
from gradclip_adapters.plain import PlainFunction
from gradclip_adapters.surroundings import (
    ENVIRONMENT,
    ERRORS,
    NUMPYS_RANDOM,
    RANDOM,
    answer_in_watched_surroundings,
    find_shared,
)
from gradclip_adapters.wire import encode_call

CALL = Call("fn", (Gradient("a", Array.of(np.array([3.0, 4.0], np.float32))),), {"clip_norm": 1.0})


def test_environment_is_restored_after_a_call_that_changes_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GRADCLIP_TEST_KEPT", "before")

    def clip(grads: list[Any], *, clip_norm: float) -> list[Any]:
        os.environ.update(GRADCLIP_TEST_KEPT="after", GRADCLIP_TEST_NEW="new")
        return grads

    reply = answer_in_watched_surroundings(PlainFunction(clip, "clip_by_norm"), CALL)

    assert reply.disturbed == (ENVIRONMENT,)
    assert os.environ["GRADCLIP_TEST_KEPT"] == "before"
    assert "GRADCLIP_TEST_NEW" not in os.environ


def test_adapter_that_returns_no_reply_object_is_reported_as_mistaken() -> None:
    class ReturnsAList(Adapter):
        def about(self) -> About:
            return About("fake", "1")

        def subjects(self) -> list[EntryPoint]:
            return [EntryPoint("clip", "clip_by_norm", ("float32",), ("functional",))]

        def call(self, call: Call) -> Any:
            return [gradient.array for gradient in call.gradients]

    message = host.answer(ReturnsAList(), encode_call(CALL, 7))

    assert (message["message"], message["number"]) == ("mistake", 7)
    assert "list" in message["text"]


def test_results_that_share_memory_are_found() -> None:
    buffer = np.zeros(8)
    even, odd, other = buffer[::2], buffer[1::2], np.zeros(4)

    # Two views of one buffer may interleave without a common element.
    assert list(find_shared([odd, other], [other.copy(), even])) == []
    assert list(find_shared([buffer[:4], other], [other.copy(), even])) == [
        "returned result 0 in the memory of gradient 1"
    ]
    # If two gradients share memory, their results may share it, too.
    assert list(find_shared([even, even], [even, even])) == []
    # A missing gradient shares memory with nothing.
    assert list(find_shared([even, buffer[:4]], [None, None])) == ["returned result 1 in the memory of result 0"]


@pytest.mark.parametrize(
    ("place", "name", "what"),
    [
        (os, "environ", ENVIRONMENT),
        (random, "getstate", RANDOM),
        (np.random, "get_state", NUMPYS_RANDOM),
        (np, "geterr", ERRORS),
    ],
    ids=["environment", "random", "numpys-random", "errors"],
)
def test_function_that_replaces_watched_functions_gets_an_answer(
    place: Any, name: str, what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def clip(grads: list[Any], *, clip_norm: float) -> list[Any]:
        monkeypatch.setattr(place, name, None)
        return grads

    reply = answer_in_watched_surroundings(PlainFunction(clip, "clip_by_norm"), CALL)
    monkeypatch.undo()

    assert reply.malformed is None
    assert what in reply.disturbed
