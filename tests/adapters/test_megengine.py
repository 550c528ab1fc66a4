"""Test how the MegEngine adapter takes errors of MegEngine. Needs MegEngine."""

from __future__ import annotations

import numpy as np
import pytest

from gradclip_adapters.contract import Array, Call, FrameworkRaised, Gradient
from gradclip_adapters.frameworks.megengine import MegEngineAdapter

ADAPTER = MegEngineAdapter()
NORM = "megengine.optimizer.clip_grad_norm"
VALUES = ([[3.0, -4.0, 0.5], [0.0, -0.0, 12.0]], [1.0, 2.0], 7.0)


def make_gradients(dtype: str = "float32") -> tuple[Gradient, ...]:
    """Return three gradients."""
    return tuple(Gradient(f"g{n}", Array.of(np.array(values, dtype))) for n, values in enumerate(VALUES))


def test_error_rises_in_the_call_that_causes_it() -> None:
    empty = Gradient("g0", Array.of(np.zeros(0, np.float32)))

    with pytest.raises(FrameworkRaised, match="async error"):
        ADAPTER.call(Call(NORM, (empty,), {"clip_norm": 1.0, "norm_type": float("inf")}))
    reply = ADAPTER.call(Call(NORM, make_gradients(), {"clip_norm": 64.0}))

    assert reply.gradients == tuple(gradient.array for gradient in make_gradients())


def test_text_of_an_error_holds_no_backtrace() -> None:
    call = Call(NORM, make_gradients(), {"clip_norm": 1.0, "threshold_as": "numpy-float64"})

    with pytest.raises(FrameworkRaised, match=r"unsupported numpy dtype <class 'numpy.float64'>$"):
        ADAPTER.call(call)
