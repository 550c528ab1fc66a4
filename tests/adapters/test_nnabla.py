"""Compare the NNabla adapter with direct calls of NNabla. Needs NNabla."""

from __future__ import annotations

from typing import Any

import nnabla
import numpy as np
import pytest
from nnabla import functions

from gradclip_adapters.contract import Array, Call, FrameworkRaised, Gradient, Unsupported
from gradclip_adapters.frameworks.nnabla import NNablaAdapter

ADAPTER = NNablaAdapter()
VALUE, NORM = "nnabla.functions.clip_by_value", "nnabla.functions.clip_by_norm"
STEP = "nnabla.solvers.Sgd.clip_grad_by_norm"
VALUES = ([[3.0, -4.0, 0.5], [0.0, -0.0, 12.0]], [1.0, 2.0], 7.0)


def make_gradients() -> tuple[Gradient, ...]:
    """Return three gradients."""
    return tuple(Gradient(f"g{n}", Array.of(np.array(values, np.float32))) for n, values in enumerate(VALUES))


def make_arrays() -> list[Any]:
    """Return the same gradients as arrays of NNabla."""
    return [nnabla.NdArray.from_numpy_array(np.array(values, np.float32)) for values in VALUES]


def test_clip_by_value_is_like_a_direct_call() -> None:
    reply = ADAPTER.call(Call(VALUE, make_gradients(), {"max": 2.0, "min": -1.0}))

    assert list(reply.gradients) == [Array.of(functions.clip_by_value(one, -1.0, 2.0).data) for one in make_arrays()]
    assert reply.inputs == tuple(gradient.array for gradient in make_gradients())


@pytest.mark.parametrize("threshold", [1.5, 64.0])
def test_clip_by_norm_is_like_a_direct_call(threshold: float) -> None:
    reply = ADAPTER.call(Call(NORM, make_gradients(), {"clip_norm": threshold}))

    assert list(reply.gradients) == [Array.of(functions.clip_by_norm(one, threshold).data) for one in make_arrays()]
    assert reply.inputs == tuple(gradient.array for gradient in make_gradients())


@pytest.mark.parametrize("subject", [NORM, STEP])
@pytest.mark.parametrize("option", ["norm_type", "error_if_nonfinite", "need_clip"])
def test_option_that_nnabla_does_not_have_is_refused_by_nnabla(subject: str, option: str) -> None:
    with pytest.raises(FrameworkRaised, match="unexpected keyword argument"):
        ADAPTER.call(Call(subject, make_gradients(), {"clip_norm": 1.0, option: 1.0}))


@pytest.mark.parametrize(
    ("dtype", "changes", "message"),
    [
        ("float32", {"layout": "strided"}, "no strides"),
        ("float32", {"rows": (0, 1), "height": 4}, "row-sparse"),
        ("float64", {}, "filled in float32"),
    ],
)
def test_what_arrays_of_nnabla_are_not_is_unsupported(dtype: str, changes: Any, message: str) -> None:
    gradient = Gradient("a", Array.of(np.ones(2, dtype)), **changes)

    with pytest.raises(Unsupported, match=message):
        ADAPTER.call(Call(NORM, (gradient,), {"clip_norm": 1.0}))
