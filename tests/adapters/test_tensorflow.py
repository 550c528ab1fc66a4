"""Test in which mode the TensorFlow adapter calls TensorFlow, and with which tensors. Needs TensorFlow."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest
import tensorflow as tf

from gradclip_adapters.contract import Array, Call, Gradient, Unsupported
from gradclip_adapters.frameworks import tensorflow as adapter

ADAPTER = adapter.TensorFlowAdapter()
#: The entry points of one device. `test_distributed_engines` tests the others.
ENTRY_POINTS = {entry.name: entry for entry in ADAPTER.subjects() if "distributed" not in entry.features}
GLOBAL_NORM = sorted(name for name, entry in ENTRY_POINTS.items() if entry.operation == "clip_by_global_norm")
ONE_BY_ONE = sorted(set(ENTRY_POINTS) - set(GLOBAL_NORM))
DTYPES = {"float16": np.float16, "bfloat16": ml_dtypes.bfloat16, "float32": np.float32, "float64": np.float64}
VALUES = ([[3.0, -4.0, 0.5], [0.0, -0.0, 12.0]], [1.0, 2.0], 7.0)


def make_gradients(entry_point: str, dtype: str) -> tuple[Gradient, ...]:
    """Return three gradients, and a None among them if the function accepts None."""
    first, *rest = (Gradient(f"g{n}", Array.of(np.array(v, DTYPES[dtype]))) for n, v in enumerate(VALUES))
    return (first, Gradient("none", None), *rest) if entry_point in GLOBAL_NORM else (first, *rest)


def make_options(entry_point: str, threshold: float) -> dict[str, Any]:
    return {"min": -threshold, "max": threshold} if "value" in entry_point else {"clip_norm": threshold}


@pytest.mark.parametrize("entry_point", [name for name in sorted(ENTRY_POINTS) if "[xla]" in name])
def test_long_list_is_not_compiled_by_xla(entry_point: str) -> None:
    gradients = tuple(Gradient(f"g{n}", Array.of(np.ones(n + 1, np.float32))) for n in range(4))
    options = make_options(entry_point, 1.0)

    assert len(ADAPTER.call(Call(entry_point, gradients, options)).gradients) == 4
    with pytest.raises(Unsupported, match="at most 4 gradients") as raised:
        ADAPTER.call(Call(entry_point, (*gradients, Gradient("more", Array.of(np.ones(9, np.float32)))), options))
    assert raised.value.kind == "adapter"


@pytest.mark.parametrize("dtype", sorted(DTYPES))
def test_session_gets_a_graph_of_placeholders(dtype: str) -> None:
    def clip(tensors: Any, options: Any) -> Any:
        assert not tf.executing_eagerly()
        assert all(one is None or one.op.type == "Placeholder" for one in tensors)
        return tf.clip_by_global_norm(tensors, **options)

    first, second = (tf.constant(np.array(values, DTYPES[dtype])) for values in ([3.0, 0.0], [4.0]))
    threshold = tf.constant(np.array(2.5, DTYPES[dtype]))

    clipped, norm = adapter._run_in_session(clip)([first, None, second], {"clip_norm": threshold})

    assert [None if one is None else one.numpy().tolist() for one in clipped] == [[1.5, 0.0], None, [2.0]]
    assert norm is not None
    assert norm.numpy() == 5.0
    assert tf.executing_eagerly()


def test_session_gets_row_sparse_and_repeated_gradients() -> None:
    rows = tf.IndexedSlices(tf.constant([[3.0], [4.0]]), tf.constant([2, 0], tf.int64), tf.constant([4, 1], tf.int64))
    dense = tf.constant([5.0])
    seen: list[Any] = []

    def clip(tensors: Any, options: Any) -> Any:
        seen.extend(tensors)
        return seen, None

    clipped, norm = adapter._run_in_session(clip)((one for one in (rows, dense, dense)), {})

    assert [one.numpy().tolist() for one in clipped if one is not None] == [[[4.0], [0.0], [3.0], [0.0]], [5.0], [5.0]]
    assert norm is None
    assert isinstance(seen[0], tf.IndexedSlices)
    assert seen[1] is seen[2]


@pytest.mark.parametrize("function", ["clip_by_value", "clip_by_norm", "clip_by_global_norm"])
def test_compiled_option_runs_inside_a_graph(function: str, monkeypatch: pytest.MonkeyPatch) -> None:
    entry_point, eagerly, original = f"tf.{function}[eager]", [], getattr(tf, function)

    def clip(*arguments: Any, **options: Any) -> Any:
        eagerly.append(tf.executing_eagerly())
        return original(*arguments, **options)

    monkeypatch.setattr(tf, function, clip)
    # Use a threshold for which no graph was compiled before.
    gradients, options = make_gradients(entry_point, "float32"), make_options(entry_point, 0.8125)
    compiled = ADAPTER.call(Call(entry_point, gradients, {**options, "compiled": True}))
    count = len(eagerly)
    alone = ADAPTER.call(Call(entry_point, gradients, options))

    assert count > 0
    assert not any(eagerly[:count])
    assert all(eagerly[count:])
    for one, other in zip(compiled.gradients, alone.gradients, strict=True):
        assert (one is None) == (other is None)
        if one is not None and other is not None:
            np.testing.assert_allclose(one.numpy(), other.numpy(), rtol=1e-6)


@pytest.mark.parametrize("function", ["clip_by_value", "clip_by_norm"])
def test_a_compiled_function_keeps_few_graphs(function: str, monkeypatch: pytest.MonkeyPatch) -> None:
    kept: list[Any] = []
    compile_function = tf.function

    def keep(*arguments: Any, **options: Any) -> Any:
        kept.append(compile_function(*arguments, **options))
        return kept[-1]

    monkeypatch.setattr(tf, "function", keep)
    gradient = Gradient("a", Array.of(np.array([3.0, 4.0], np.float32)))
    for number in range(2 * adapter.MOST_GRAPHS):
        threshold = (33 + number) / 128
        reply = ADAPTER.call(Call(f"tf.{function}[tf.function]", (gradient,), make_options(function, threshold)))
        (result,) = reply.gradients
        assert result is not None
        expected = [threshold] * 2 if "value" in function else [0.6 * threshold, 0.8 * threshold]
        np.testing.assert_allclose(result.numpy(), expected, rtol=1e-6)

    assert kept
    assert all(one.experimental_get_tracing_count() <= adapter.MOST_GRAPHS for one in kept)


def test_calls_with_and_without_axes_follow_each_other() -> None:
    gradient = Gradient("a", Array.of(np.array([[3.0, 4.0], [0.0, 0.5]], np.float32)))
    answers = []
    for options in ({"clip_norm": 2.5}, {"clip_norm": 2.5, "axes": "1"}) * 2:
        (result,) = ADAPTER.call(Call("tf.clip_by_norm[tf.function]", (gradient,), options)).gradients
        assert result is not None
        answers.append(result.numpy()[1, 1])

    assert answers[1] == answers[3] == 0.5
    assert answers[0] == answers[2] < 0.5
