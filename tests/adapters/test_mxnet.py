"""Test how the MXNet adapter takes errors of MXNet. Needs MXNet."""

from __future__ import annotations

import numpy as np
import pytest

from gradclip_adapters.contract import Array, Call, FrameworkRaised, Gradient
from gradclip_adapters.frameworks.mxnet import MXNetAdapter, _cut_trace

ADAPTER = MXNetAdapter()
NORM = "mxnet.gluon.utils.clip_global_norm[check_isfinite=True]"
VALUES = ([[3.0, -4.0, 0.5], [0.0, -0.0, 12.0]], [1.0, 2.0])


def make_gradients(dtype: str) -> tuple[Gradient, ...]:
    """Return two gradients."""
    return tuple(Gradient(f"g{n}", Array.of(np.array(values, dtype))) for n, values in enumerate(VALUES))


def test_failed_call_does_not_disturb_the_next_one() -> None:
    with pytest.raises(FrameworkRaised, match="float64"):
        ADAPTER.call(Call(NORM, make_gradients("float64"), {"clip_norm": 1.0}))

    assert ADAPTER.call(Call(NORM, make_gradients("float32"), {"clip_norm": 1.0})).norm is not None


def test_text_of_an_error_has_neither_the_time_nor_a_stack_trace() -> None:
    text = "[10:22:49] src/concat.cc:153: Check failed: i == dtype\nStack trace:\n  [bt] (0) /me/libmxnet.so(+0x30)"

    assert _cut_trace(text) == "src/concat.cc:153: Check failed: i == dtype"
    with pytest.raises(FrameworkRaised, match="Check failed") as raised:
        ADAPTER.call(Call(NORM, make_gradients("float64"), {"clip_norm": 1.0}))
    assert "[bt]" not in raised.value.text
