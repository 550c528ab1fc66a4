"""Test how the MindSpore adapter takes errors of MindSpore and tensors without elements. Needs MindSpore."""

from __future__ import annotations

import numpy as np
import pytest

from gradclip_adapters.contract import Array, Call, FrameworkRaised, Gradient
from gradclip_adapters.frameworks.mindspore import MindSporeAdapter

ADAPTER = MindSporeAdapter()
NORM, VALUE, LAYER = "mindspore.ops.clip_by_norm", "mindspore.ops.clip_by_value", "mindspore.nn.ClipByNorm"
GRADIENT = Gradient("g", Array.of(np.array([3.0, -4.0], np.float32)))


def test_text_of_an_error_holds_no_call_stack() -> None:
    with pytest.raises(FrameworkRaised, match=r"must be greater than or equal to 1, but got 0\.$"):
        ADAPTER.call(Call(NORM, (), {"clip_norm": 1.0}))


def test_error_of_a_kernel_belongs_to_the_call_that_caused_it() -> None:
    empty = tuple(Gradient(f"g{number}", Array.of(np.zeros(0, np.float32))) for number in range(5))

    for _ in range(10):
        with pytest.raises(FrameworkRaised, match=r"bad input size\.$") as raised:
            ADAPTER.call(Call(LAYER, empty, {"clip_norm": 1.0}))

        assert raised.value.inputs == tuple(gradient.array for gradient in empty)
        assert ADAPTER.call(Call(VALUE, (GRADIENT,), {"max": 2.0, "min": -1.0})).gradients


def test_tensor_without_elements_is_reused() -> None:
    gradient = Gradient("g", Array.of(np.zeros((0, 3), np.float32)), layout="strided")

    reply = ADAPTER.call(Call(VALUE, (gradient,), {"max": 2.0, "min": -1.0, "reused": True}))

    assert reply.gradients == (gradient.array,)
