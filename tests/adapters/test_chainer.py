"""Test what the Chainer adapter passes on and what it refuses. Needs Chainer."""

from __future__ import annotations

import numpy as np
import pytest

from gradclip_adapters.contract import Array, Call, FrameworkRaised, Gradient, Unsupported
from gradclip_adapters.frameworks.chainer import ChainerAdapter

ADAPTER = ChainerAdapter()
NORM = "chainer.optimizer_hooks.GradientClipping [SGD]"
VALUES = ([[3.0, -4.0, 0.5], [0.0, -0.0, 12.0]], [1.0, 2.0], 7.0)


def make_gradients(dtype: str) -> tuple[Gradient, ...]:
    """Return three gradients and a None among them."""
    first, *rest = (Gradient(f"g{n}", Array.of(np.array(values, dtype))) for n, values in enumerate(VALUES))
    return (first, Gradient("none", None), *rest)


@pytest.mark.parametrize("option", ["norm_type", "error_if_nonfinite", "need_clip"])
def test_option_that_chainer_does_not_have_is_refused_by_chainer(option: str) -> None:
    with pytest.raises(FrameworkRaised, match=f"unexpected keyword argument '{option}'"):
        ADAPTER.call(Call(NORM, make_gradients("float32"), {"clip_norm": 1.0, option: 1.0}))


def test_row_sparse_gradient_is_unsupported() -> None:
    gradient = Gradient("a", Array.of(np.ones(2, np.float32)), rows=(0, 1), height=4)

    with pytest.raises(Unsupported, match="row-sparse"):
        ADAPTER.call(Call(NORM, (gradient,), {"clip_norm": 1.0}))
