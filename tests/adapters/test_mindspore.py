"""Compare the MindSpore adapter with direct calls of MindSpore. Needs MindSpore."""

from __future__ import annotations

from typing import Any

import mindspore
import numpy as np
import pytest
from mindspore import Tensor, nn, ops

from gradclip_adapters.contract import Array, Call, FrameworkRaised, Gradient, Unsupported
from gradclip_adapters.frameworks.mindspore import MindSporeAdapter

ADAPTER = MindSporeAdapter()
NORM, GLOBAL, VALUE = (f"mindspore.ops.clip_by_{what}" for what in ("norm", "global_norm", "value"))
LAYER = "mindspore.nn.ClipByNorm"
VALUES: tuple[Any, ...] = ([[3.0, -4.0, 0.5], [0.0, -0.0, 12.0]], [1.0, 2.0], 7.0)


def make_gradients(dtype: str = "float32") -> tuple[Gradient, ...]:
    """Return three gradients."""
    return tuple(Gradient(f"g{n}", Array.of(np.array(values, dtype))) for n, values in enumerate(VALUES))


def make_tensors(dtype: str = "float32") -> list[Any]:
    """Return the same gradients as tensors of MindSpore."""
    return [Tensor(np.array(values, dtype)) for values in VALUES]


def read(tensors: Any) -> list[Array]:
    """Return the elements of tensors."""
    return [Array.of(tensor.asnumpy()) for tensor in tensors]


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
@pytest.mark.parametrize("order", [1.0, 2.0, float("inf")])
@pytest.mark.parametrize("threshold", [1.5, 64.0])
def test_clip_by_norm_is_like_a_direct_call(dtype: str, order: float, threshold: float) -> None:
    clipped = ops.clip_by_norm(make_tensors(dtype), threshold, order)

    reply = ADAPTER.call(Call(NORM, make_gradients(dtype), {"clip_norm": threshold, "norm_type": order}))

    assert list(reply.gradients) == read(clipped)
    assert reply.inputs == tuple(read(make_tensors(dtype)))


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
@pytest.mark.parametrize("compiled", [{}, {"compiled": True}])
def test_clip_by_global_norm_is_like_a_direct_call(dtype: str, compiled: dict[str, bool]) -> None:
    function = mindspore.jit(ops.clip_by_global_norm) if compiled else ops.clip_by_global_norm
    clipped = function(make_tensors(dtype), 1.5)

    reply = ADAPTER.call(Call(GLOBAL, make_gradients(dtype), {"clip_norm": 1.5, **compiled}))

    assert list(reply.gradients) == read(clipped)


def test_clip_by_value_is_like_a_direct_call() -> None:
    clipped = ops.clip_by_value(make_tensors(), -1.0, 2.0)

    reply = ADAPTER.call(Call(VALUE, make_gradients(), {"max": 2.0, "min": -1.0}))

    assert list(reply.gradients) == read(clipped)
    assert reply.same_object == (False, False, False)


@pytest.mark.parametrize("axes", [None, "0", "-1", "0,1"])
def test_layer_is_like_a_direct_call(axes: str | None) -> None:
    numbers = None if axes is None else [int(axis) for axis in axes.split(",")]
    gradient, tensor = make_gradients()[0], make_tensors()[0]
    clipped = nn.ClipByNorm(numbers)(tensor, Tensor(1.5, mindspore.float32))

    reply = ADAPTER.call(Call(LAYER, (gradient,), {"clip_norm": 1.5, **({} if axes is None else {"axes": axes})}))

    assert list(reply.gradients) == read([clipped])


def test_text_of_an_error_holds_no_call_stack() -> None:
    with pytest.raises(FrameworkRaised, match=r"must be greater than or equal to 1, but got 0\.$"):
        ADAPTER.call(Call(NORM, (), {"clip_norm": 1.0}))


@pytest.mark.parametrize("option", ["eps", "need_clip"])
def test_option_that_mindspore_does_not_have_is_refused_by_mindspore(option: str) -> None:
    with pytest.raises(FrameworkRaised, match="unexpected keyword argument"):
        ADAPTER.call(Call(NORM, make_gradients(), {"clip_norm": 1.0, option: 1.0}))


@pytest.mark.parametrize(
    ("array", "changes"),
    [
        (Array("bfloat16", (1,), b"\0\0"), {}),
        (Array.of(np.ones(2, np.float32)), {"rows": (0, 1), "height": 4}),
        (Array.of(np.ones(2, np.float32)), {"layout": "reversed"}),
    ],
)
def test_what_tensors_of_mindspore_are_not_is_unsupported(array: Array, changes: Any) -> None:
    with pytest.raises(Unsupported):
        ADAPTER.call(Call(NORM, (Gradient("a", array, **changes),), {"clip_norm": 1.0}))


def test_error_of_a_kernel_belongs_to_the_call_that_caused_it() -> None:
    empty = tuple(Gradient(f"g{number}", Array.of(np.zeros(0, np.float32))) for number in range(5))

    for _ in range(10):
        with pytest.raises(FrameworkRaised, match=r"bad input size\.$") as raised:
            ADAPTER.call(Call(LAYER, empty, {"clip_norm": 1.0}))

        assert raised.value.inputs == tuple(gradient.array for gradient in empty)
        assert ADAPTER.call(Call(VALUE, make_gradients(), {"max": 2.0, "min": -1.0})).gradients


def test_tensor_without_elements_is_reused() -> None:
    gradient = Gradient("g", Array.of(np.zeros((0, 3), np.float32)), layout="strided")

    reply = ADAPTER.call(Call(VALUE, (gradient,), {"max": 2.0, "min": -1.0, "reused": True}))

    assert reply.gradients == (gradient.array,)
