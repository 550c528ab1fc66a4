"""Check that a call gets an answer, and that the host reports the change, even if the call breaks the watched state."""

from __future__ import annotations

import os
import random
from typing import Any

import numpy as np
import pytest

from gradclip_adapters.contract import Array, Call, Gradient
from gradclip_adapters.plain import PlainFunction
from gradclip_adapters.surroundings import ENVIRONMENT, ERRORS, NUMPYS_RANDOM, RANDOM, answer_in_watched_surroundings

CALL = Call("fn", (Gradient("a", Array.of(np.array([3.0, 4.0], np.float32))),), {"clip_norm": 1.0})


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
