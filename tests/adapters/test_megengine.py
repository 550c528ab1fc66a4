"""Compare the MegEngine adapter with direct calls of MegEngine. Needs MegEngine."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from megengine import Parameter, Tensor
from megengine.optimizer import clip_grad_norm, clip_grad_value

from gradclip_adapters.contract import Array, Call, FrameworkRaised, Gradient, Unsupported
from gradclip_adapters.frameworks.megengine import MegEngineAdapter

ADAPTER = MegEngineAdapter()
NORM, VALUE = "megengine.optimizer.clip_grad_norm", "megengine.optimizer.clip_grad_value"
VALUES = ([[3.0, -4.0, 0.5], [0.0, -0.0, 12.0]], [1.0, 2.0], 7.0)


def make_gradients(dtype: str = "float32") -> tuple[Gradient, ...]:
    """Return three gradients."""
    return tuple(Gradient(f"g{n}", Array.of(np.array(values, dtype))) for n, values in enumerate(VALUES))


def make_parameters(dtype: str = "float32") -> list[Any]:
    """Return parameters with the same gradients."""
    parameters = [Parameter(np.zeros(np.shape(values), dtype)) for values in VALUES]
    for parameter, values in zip(parameters, VALUES, strict=True):
        parameter.grad = Tensor(np.array(values, dtype))
    return parameters


def read(parameters: list[Any]) -> list[Array]:
    """Return the gradients of the parameters."""
    return [Array.of(parameter.grad.numpy()) for parameter in parameters]


@pytest.mark.parametrize("dtype", ["float16", "float32"])
@pytest.mark.parametrize("order", [1.0, 2.0, float("inf")])
@pytest.mark.parametrize("threshold", [1.5, 64.0])
def test_clip_by_norm_is_like_a_direct_call(dtype: str, order: float, threshold: float) -> None:
    parameters = make_parameters(dtype)
    norm = clip_grad_norm(parameters, threshold, ord=order)

    reply = ADAPTER.call(Call(NORM, make_gradients(dtype), {"clip_norm": threshold, "norm_type": order}))

    assert list(reply.gradients) == read(parameters)
    assert reply.norm == Array.of(norm.numpy())
    assert (reply.inputs, reply.same_object) == (reply.gradients, (True, True, True))


def test_clip_by_value_is_like_a_direct_call() -> None:
    parameters = make_parameters()
    clip_grad_value(parameters, -1.0, 2.0)

    reply = ADAPTER.call(Call(VALUE, make_gradients(), {"max": 2.0, "min": -1.0}))

    assert list(reply.gradients) == read(parameters)
    assert (reply.inputs, reply.same_object) == (reply.gradients, (True, True, True))


def test_error_rises_in_the_call_that_causes_it() -> None:
    empty = Gradient("g0", Array.of(np.zeros(0, np.float32)))

    with pytest.raises(FrameworkRaised, match="async error"):
        ADAPTER.call(Call(NORM, (empty,), {"clip_norm": 1.0, "norm_type": float("inf")}))
    reply = ADAPTER.call(Call(NORM, make_gradients(), {"clip_norm": 64.0}))

    assert list(reply.gradients) == read(make_parameters())


def test_text_of_an_error_holds_no_backtrace() -> None:
    call = Call(NORM, make_gradients(), {"clip_norm": 1.0, "threshold_as": "numpy-float64"})

    with pytest.raises(FrameworkRaised, match=r"unsupported numpy dtype <class 'numpy.float64'>$"):
        ADAPTER.call(call)


@pytest.mark.parametrize("option", ["error_if_nonfinite", "eps"])
def test_option_that_megengine_does_not_have_is_refused_by_megengine(option: str) -> None:
    with pytest.raises(FrameworkRaised, match="unexpected keyword argument"):
        ADAPTER.call(Call(NORM, make_gradients(), {"clip_norm": 1.0, option: 1.0}))


@pytest.mark.parametrize(
    ("dtype", "changes"),
    [("float64", {}), ("float32", {"rows": (0, 1), "height": 4}), ("float32", {"layout": "reversed"})],
)
def test_what_tensors_of_megengine_are_not_is_unsupported(dtype: str, changes: Any) -> None:
    gradient = Gradient("a", Array.of(np.ones(2, dtype)), **changes)

    with pytest.raises(Unsupported):
        ADAPTER.call(Call(NORM, (gradient,), {"clip_norm": 1.0}))
