"""Compare the MXNet adapter with direct calls of MXNet. Needs MXNet."""

from __future__ import annotations

from typing import Any

import mxnet as mx
import numpy as np
import pytest

from gradclip_adapters.contract import Array, Call, FrameworkRaised, Gradient, Unsupported
from gradclip_adapters.frameworks.mxnet import MXNetAdapter, _cut_trace

ADAPTER = MXNetAdapter()
NORM = "mxnet.gluon.utils.clip_global_norm[check_isfinite={}]"
STEP = "mxnet.optimizer.SGD(clip_gradient)"
VALUES = ([[3.0, -4.0, 0.5], [0.0, -0.0, 12.0]], [1.0, 2.0])


def make_gradients(dtype: str) -> tuple[Gradient, ...]:
    """Return two gradients."""
    return tuple(Gradient(f"g{n}", Array.of(np.array(values, dtype))) for n, values in enumerate(VALUES))


def make_arrays(dtype: str) -> list[Any]:
    """Return the same gradients as NDArrays."""
    return [mx.nd.array(values, dtype=dtype) for values in VALUES]


@pytest.mark.parametrize("check", [True, False])
@pytest.mark.parametrize("threshold", [1.5, 64.0])
def test_global_norm_is_like_a_direct_call(check: bool, threshold: float) -> None:
    arrays = make_arrays("float32")
    norm = mx.gluon.utils.clip_global_norm(arrays, threshold, check)

    reply = ADAPTER.call(Call(NORM.format(check), make_gradients("float32"), {"clip_norm": threshold}))

    assert list(reply.gradients) == [Array.of(array.asnumpy()) for array in arrays]
    assert reply.norm == Array.of(norm if check else norm.asnumpy())
    assert reply.inputs == reply.gradients
    assert reply.same_object == (True, True)


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_operator_is_like_a_direct_call(dtype: str) -> None:
    reply = ADAPTER.call(Call("mxnet.nd.clip", make_gradients(dtype), {"max": 2.0, "min": -1.0}))

    assert list(reply.gradients) == [Array.of(mx.nd.clip(one, -1.0, 2.0).asnumpy()) for one in make_arrays(dtype)]
    assert reply.inputs == tuple(gradient.array for gradient in make_gradients(dtype))


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_optimizer_returns_negated_weights(dtype: str) -> None:
    reply = ADAPTER.call(Call(STEP, make_gradients(dtype), {"max": 2.0, "learning_rate": 0.5}))

    for array, values in zip(reply.gradients, VALUES, strict=True):
        assert array is not None
        assert array.dtype == dtype
        np.testing.assert_array_equal(array.numpy(), 0.5 * np.clip(np.array(values), -2.0, 2.0))


def test_failed_call_does_not_disturb_the_next_one() -> None:
    with pytest.raises(FrameworkRaised, match="float64"):
        ADAPTER.call(Call(NORM.format(True), make_gradients("float64"), {"clip_norm": 1.0}))

    assert ADAPTER.call(Call(NORM.format(True), make_gradients("float32"), {"clip_norm": 1.0})).norm is not None


@pytest.mark.parametrize("option", ["norm_type", "error_if_nonfinite"])
def test_option_that_mxnet_does_not_have_is_refused_by_mxnet(option: str) -> None:
    with pytest.raises(FrameworkRaised, match="unexpected keyword argument"):
        ADAPTER.call(Call(NORM.format(True), make_gradients("float32"), {"clip_norm": 1.0, option: 1.0}))


@pytest.mark.parametrize(
    ("array", "changes", "message"),
    [
        (np.ones(2, np.float32), {"layout": "strided"}, "no strides"),
        (np.ones(2, np.float32), {"rows": (0, 1), "height": 4}, "RowSparseNDArray"),
        (np.ones(0, np.float32), {}, "unknown shape"),
        (np.float32(1), {}, "unknown shape"),
    ],
)
def test_what_ndarrays_are_not_is_unsupported(array: Any, changes: Any, message: str) -> None:
    with pytest.raises(Unsupported, match=message):
        ADAPTER.call(Call("mxnet.nd.clip", (Gradient("a", Array.of(np.asarray(array)), **changes),), {"max": 1.0}))


def test_text_of_an_error_has_neither_the_time_nor_a_stack_trace() -> None:
    text = "[10:22:49] src/concat.cc:153: Check failed: i == dtype\nStack trace:\n  [bt] (0) /me/libmxnet.so(+0x30)"

    assert _cut_trace(text) == "src/concat.cc:153: Check failed: i == dtype"
    with pytest.raises(FrameworkRaised, match="Check failed") as raised:
        ADAPTER.call(Call(NORM.format(True), make_gradients("float64"), {"clip_norm": 1.0}))
    assert "[bt]" not in raised.value.text
