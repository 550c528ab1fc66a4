"""Check calls that change the state of the process. Each call gets a reply that says what the call changed."""

from __future__ import annotations

import os
import random
from typing import Any

import numpy as np
import pytest

from gradclip_adapters.contract import Array, Call, FrameworkRaised, Gradient, Unsupported
from gradclip_adapters.plain import PlainFunction
from gradclip_adapters.surroundings import (
    BESIDE,
    ENVIRONMENT,
    ERRORS,
    NUMPYS_RANDOM,
    RANDOM,
    READ_ONLY,
    answer_in_watched_surroundings,
    find_shared,
)

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


def _ask(clip: Any, layout: str, *, in_place: bool | None = None) -> tuple[str, ...] | None:
    """Return what a call with one matrix of a layout has changed."""
    matrix = Array.of(np.array([[3.0, 3.0], [4.0, 4.0]], np.float32))
    call = Call("fn", (Gradient("a", matrix, layout=layout),), {"clip_norm": 1.0})
    return PlainFunction(clip, "clip_by_norm", in_place=in_place, name="fn").call(call).disturbed


@pytest.mark.parametrize("layout", ["strided", "sliced", "packed", "unaligned"])
def test_changes_beside_a_gradient_in_its_buffer_are_found(layout: str) -> None:
    def clip_all(grads: list[Any], *, clip_norm: float) -> list[Any]:
        grads[0].base.view(np.uint8)[...] ^= 1
        return grads

    def clip(grads: list[Any], *, clip_norm: float) -> list[Any]:
        grads[0][...] *= clip_norm / 8
        return grads

    assert _ask(clip_all, layout, in_place=True) == (BESIDE,)
    assert _ask(clip, layout, in_place=True) == ()


@pytest.mark.parametrize("is_locked_again", [True, False])
def test_changes_to_a_read_only_gradient_are_found(is_locked_again: bool) -> None:
    def clip(grads: list[Any], *, clip_norm: float) -> list[Any]:
        grads[0].flags.writeable = True
        if is_locked_again:
            grads[0] *= clip_norm / 8
            grads[0].flags.writeable = False
        return list(grads)

    assert _ask(clip, "read-only") == (READ_ONLY,)
    assert _ask(lambda grads, clip_norm: [grads[0] * clip_norm], "read-only") == ()


@pytest.mark.parametrize("layout", ["broadcast", "read-only"])
def test_function_that_writes_gets_no_array_that_cannot_be_written(layout: str) -> None:
    def clip(grads: list[Any], *, clip_norm: float) -> list[Any]:
        grads[0] *= clip_norm / 8
        return list(grads)

    with pytest.raises(Unsupported, match="writes into the gradients"):
        _ask(clip, layout)
    with pytest.raises(FrameworkRaised, match="read-only"):
        _ask(clip, layout, in_place=False)
    with pytest.raises(Unsupported, match="does not"):
        _ask(clip, layout, in_place=True)


def test_error_shows_what_the_call_has_changed_before() -> None:
    def clip(grads: list[Any], *, clip_norm: float, need_clip: list[bool]) -> list[Any]:
        need_clip.clear()
        raise ValueError(clip_norm)

    with pytest.raises(FrameworkRaised) as caught:
        answer_in_watched_surroundings(PlainFunction(clip, "clip_by_norm", name="fn"), CALL)

    assert caught.value.disturbed == ("the caller's flags",)


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
    # A new result can be written, even if its gradient cannot. The gradient itself may be the result.
    locked, new = np.broadcast_to(other[:1], 4), np.broadcast_to(np.ones(1), 4)
    assert list(find_shared([locked], [locked])) == []
    assert list(find_shared([new], [locked])) == ["returned an array that cannot be written as result 0"]
    # A missing gradient shares memory with nothing.
    assert list(find_shared([even, buffer[:4]], [None, None])) == ["returned result 1 in the memory of result 0"]


@pytest.mark.parametrize(
    ("place", "name", "what"),
    [
        (os, "environ", ENVIRONMENT),
        (random, "getstate", RANDOM),
        (np.random, "get_bit_generator", NUMPYS_RANDOM),
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


@pytest.mark.parametrize("drawn_before", [0, 1])
@pytest.mark.parametrize(
    "draw",
    [
        np.random.normal,
        np.random.random,
        lambda: np.random.seed(5),  # noqa: NPY002
        lambda: np.random.set_bit_generator(np.random.MT19937(5)),
    ],
    ids=["normal", "uniform", "seed", "other-generator"],
)
def test_numpys_random_state_is_restored_after_each_call_that_changes_it(draw: Any, drawn_before: int) -> None:
    def clip(grads: list[Any], *, clip_norm: float) -> list[Any]:
        draw()
        return grads

    generator, state = np.random.get_bit_generator(), np.random.get_state()  # noqa: NPY002
    try:
        np.random.seed(1)  # noqa: NPY002
        # Normal numbers come in pairs: after one, the next draw does not use the generator.
        np.random.normal(size=drawn_before)  # noqa: NPY002
        for _ in range(2):
            expected = str(np.random.get_state())  # noqa: NPY002
            reply = answer_in_watched_surroundings(PlainFunction(clip, "clip_by_norm"), CALL)
            assert NUMPYS_RANDOM in reply.disturbed
            if np.random.get_bit_generator() is generator:
                assert str(np.random.get_state()) == expected  # noqa: NPY002
    finally:
        np.random.set_bit_generator(generator)
        np.random.set_state(state)  # noqa: NPY002
