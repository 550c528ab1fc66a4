"""Test how the MegEngine adapter takes errors of MegEngine. Needs MegEngine."""

from __future__ import annotations

import numpy as np
import pytest

from gradclip_adapters.contract import Array, Call, FrameworkRaised, Gradient
from gradclip_adapters.frameworks.megengine import MegEngineAdapter

ADAPTER = MegEngineAdapter()
NORM = "megengine.optimizer.clip_grad_norm"
GRADIENT = Gradient("g", Array.of(np.array([3.0, -4.0], np.float32)))


def test_error_rises_in_the_call_that_causes_it() -> None:
    empty = Gradient("g0", Array.of(np.zeros(0, np.float32)))

    with pytest.raises(FrameworkRaised, match="async error"):
        ADAPTER.call(Call(NORM, (empty,), {"clip_norm": 1.0, "norm_type": float("inf")}))
    reply = ADAPTER.call(Call(NORM, (GRADIENT,), {"clip_norm": 64.0}))

    assert reply.gradients == (GRADIENT.array,)


def test_text_of_an_error_holds_no_backtrace() -> None:
    call = Call(NORM, (GRADIENT,), {"clip_norm": 1.0, "threshold_as": "numpy-float64"})

    with pytest.raises(FrameworkRaised, match=r"unsupported numpy dtype <class 'numpy.float64'>$"):
        ADAPTER.call(call)
