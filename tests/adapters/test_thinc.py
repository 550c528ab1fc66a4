"""Compare the thinc adapter with direct calls of an operator. Needs thinc."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from thinc.api import NumpyOps

from gradclip_adapters.contract import Array, Call, FrameworkRaised, Gradient, Unsupported
from gradclip_adapters.frameworks.thinc import ThincAdapter

ADAPTER = ThincAdapter()
STEP, OPERATOR = "thinc.api.SGD(grad_clip)", "thinc.api.NumpyOps.clip_gradient"
VALUES = ([[3.0, -4.0, 0.5], [0.0, -0.0, 12.0]], [1.0, 2.0])


def make_gradients(dtype: str) -> tuple[Gradient, ...]:
    """Return two gradients."""
    return tuple(Gradient(f"g{n}", Array.of(np.array(values, dtype))) for n, values in enumerate(VALUES))


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
@pytest.mark.parametrize("threshold", [1.5, 64.0])
def test_operator_writes_into_the_gradient(dtype: str, threshold: float) -> None:
    reply = ADAPTER.call(Call(OPERATOR, make_gradients(dtype), {"clip_norm": threshold}))

    expected = tuple(Array.of(NumpyOps().clip_gradient(np.array(values, dtype), threshold)) for values in VALUES)
    assert reply.gradients == reply.inputs == expected
    assert reply.same_object == (True, True)


@pytest.mark.parametrize("subject", [STEP, OPERATOR])
@pytest.mark.parametrize("option", ["norm_type", "error_if_nonfinite", "need_clip"])
def test_option_that_thinc_does_not_have_is_refused_by_thinc(subject: str, option: str) -> None:
    with pytest.raises(FrameworkRaised, match=f"unexpected keyword argument '{option}'"):
        ADAPTER.call(Call(subject, make_gradients("float32"), {"clip_norm": 1.0, option: 1.0}))


@pytest.mark.parametrize(
    ("gradients", "changes", "message"),
    [(1, {"rows": (0, 1), "height": 4}, "row-sparse"), (0, {}, "takes one tensor")],
)
def test_what_thinc_does_not_take_is_unsupported(gradients: int, changes: Any, message: str) -> None:
    passed = (Gradient("a", Array.of(np.ones(2, np.float32)), **changes),) * gradients

    with pytest.raises(Unsupported, match=message):
        ADAPTER.call(Call(OPERATOR, passed, {"clip_norm": 1.0}))
