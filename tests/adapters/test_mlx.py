"""Compare the MLX adapter with direct calls of MLX. Needs MLX."""

from __future__ import annotations

from typing import Any

import mlx.core as mx
import mlx.nn.utils
import mlx.optimizers
import numpy as np
import pytest

from gradclip_adapters.contract import Array, Call, FrameworkRaised, Gradient, Unsupported
from gradclip_adapters.frameworks.mlx import MLXAdapter

ADAPTER = MLXAdapter()
SUBJECTS = {subject.name: subject for subject in ADAPTER.subjects()}
FUNCTIONS = {
    "mlx.optimizers.clip_grad_norm": mlx.optimizers.clip_grad_norm,
    "mlx.nn.utils.clip_grad_norm_sharded": mlx.nn.utils.clip_grad_norm_sharded,
}
DTYPES = ("float16", "bfloat16", "float32", "float64")
VALUES = ([[3.0, -4.0, 0.5], [0.0, -0.0, 12.0]], [1.0, 2.0], 7.0)


def pack(values: Any, dtype: str) -> Array:
    """Return an array with values that every dtype can represent."""
    if dtype == "bfloat16":
        return Array.of((np.array(values, "float32").view("u4") >> 16).astype("u2"), dtype)
    return Array.of(np.array(values, dtype))


def unpack(array: Array | None) -> np.ndarray[Any, Any]:
    """Return the elements as float64."""
    assert array is not None
    if array.dtype == "bfloat16":
        return (array.bits().astype("u4") << 16).view("float32").astype("float64")
    return array.numpy().astype("float64")


def make_gradients(dtype: str) -> tuple[Gradient, ...]:
    """Return three gradients."""
    return tuple(Gradient(f"g{n}", pack(values, dtype)) for n, values in enumerate(VALUES))


@pytest.mark.parametrize("subject", sorted(FUNCTIONS))
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("threshold", [1.5, 64.0])
def test_adapter_answers_like_a_direct_call(subject: str, dtype: str, threshold: float) -> None:
    arrays = [mx.array(values).astype(getattr(mx, dtype)) for values in VALUES]
    clipped, norm = FUNCTIONS[subject](arrays, threshold)

    reply = ADAPTER.call(Call(subject, make_gradients(dtype), {"clip_norm": threshold}))

    assert [array.dtype for array in reply.gradients if array] == [dtype] * 3
    for array, expected in zip(reply.gradients, clipped, strict=True):
        assert np.array_equal(unpack(array), np.array(expected.astype(mx.float64)))
    assert unpack(reply.norm) == norm.item()
    assert reply.inputs == tuple(gradient.array for gradient in make_gradients(dtype))


def test_compiled_call_is_traced(monkeypatch: pytest.MonkeyPatch) -> None:
    if "compiles" not in SUBJECTS["mlx.optimizers.clip_grad_norm"].features:
        pytest.skip("mx.compile needs g++ on the CPU")
    compile_function, compiled = mx.compile, []
    monkeypatch.setattr(mx, "compile", lambda function: compiled.append(function) or compile_function(function))
    call = Call("mlx.optimizers.clip_grad_norm", make_gradients("float32"), {"clip_norm": 1.5, "compiled": True})

    reply = ADAPTER.call(call)

    assert len(compiled) == 1
    assert reply.norm is not None


@pytest.mark.parametrize("subject", sorted(FUNCTIONS))
@pytest.mark.parametrize("option", ["norm_type", "error_if_nonfinite"])
def test_option_that_mlx_does_not_have_is_refused_by_mlx(subject: str, option: str) -> None:
    with pytest.raises(FrameworkRaised, match=f"unexpected keyword argument '{option}'"):
        ADAPTER.call(Call(subject, make_gradients("float32"), {"clip_norm": 1.0, option: 1.0}))


@pytest.mark.parametrize(
    ("changes", "message"),
    [({"layout": "reversed"}, "layout of its own"), ({"rows": (0, 1), "height": 4}, "row-sparse")],
)
def test_what_arrays_of_mlx_are_not_is_unsupported(changes: dict[str, Any], message: str) -> None:
    gradient = Gradient("a", pack([1.0, 1.0], "float32"), **changes)

    with pytest.raises(Unsupported, match=message) as raised:
        ADAPTER.call(Call("mlx.optimizers.clip_grad_norm", (gradient,), {"clip_norm": 1.0}))

    assert raised.value.kind == "interface"
