"""Test what the Paddle adapter converts and calls, not how Paddle clips. Needs paddlepaddle 3."""

from __future__ import annotations

import os
import warnings
from operator import attrgetter
from typing import Any

import numpy as np
import pytest

from gradclip_adapters.contract import (
    Array,
    Call,
    EntryPoint,
    Gradient,
    Reply,
    Unsupported,
)

with warnings.catch_warnings():
    # Paddle warns on import when the machine has no ccache.
    warnings.simplefilter("ignore")
    if "paddle" in os.environ.get("GRADCLIP_REQUIRE", "").split(","):
        import paddle
    else:
        paddle = pytest.importorskip("paddle", reason="paddlepaddle 3 is not installed in this Python")
        pytest.importorskip("paddle.nn", reason="this paddlepaddle is older than 2.0")
    from gradclip_adapters.frameworks.paddle import PaddleAdapter, make_tensor

ADAPTER = PaddleAdapter()
#: The entry points of one process. `test_distributed_engines` tests the others.
ENTRY_POINTS = {entry.name: entry for entry in ADAPTER.subjects() if "distributed" not in entry.features}
WEIGHT = np.array([[3.0, 0.0], [0.0, 0.0]], dtype=np.float32)
BIAS = np.array([4.0, 0.0], dtype=np.float32)
#: Options that clip the two gradients above.
CLIPPING = {
    "clip_by_value": {"max": 2.5},
    "clip_by_norm": {"clip_norm": 1.5},
    "clip_by_global_norm": {"clip_norm": 2.5},
}


def ask(entry_point: EntryPoint, *arrays: np.ndarray[Any, Any], **options: Any) -> Reply:
    """Return the adapter's reply for these gradients. The default options clip them."""
    gradients = tuple(Gradient(f"g{number}", Array.of(array)) for number, array in enumerate(arrays))
    return ADAPTER.call(Call(entry_point.name, gradients, {**CLIPPING[entry_point.operation], **options}))


def read_values(arrays: tuple[Array | None, ...] | None) -> list[Any]:
    assert arrays is not None
    return [None if array is None else array.numpy().tolist() for array in arrays]


#: Rows 1 and 3 of four.
SOME_ROWS = Gradient("g", Array.of(np.array([[3.0, 0.0], [0.0, 0.0]], np.float32)), rows=(1, 3), height=4)


def test_set_gradient_clip_is_called_and_clips_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    passed: list[Any] = []
    original = paddle.nn.clip.set_gradient_clip

    def note(clip: Any, parameters: Any) -> Any:
        passed.append((clip.clip_norm, parameters))
        return original(clip, parameters)

    monkeypatch.setattr(paddle.nn.clip, "set_gradient_clip", note)
    # Paddle 3.3 finds no parameters in a program of the representation that static programs use by default.
    reply = ask(ENTRY_POINTS["paddle.nn.clip.set_gradient_clip [ClipGradByGlobalNorm, static]"], WEIGHT, BIAS)

    assert passed == [(2.5, None)]
    assert read_values(reply.gradients) == [WEIGHT.tolist(), BIAS.tolist()]
    assert any("'set_gradient_clip' is not recommended" in warning for warning in reply.warnings)


class TestRows:
    @pytest.mark.parametrize("of", ["norm", "value"])
    def test_functions_on_parameters_get_row_sparse_gradients(self, of: str, monkeypatch: pytest.MonkeyPatch) -> None:
        kinds: list[bool] = []
        name = f"clip_grad_{of}_"

        def clip(parameters: Any, *_: Any, **__: Any) -> Any:
            kinds.extend(parameter.grad.is_selected_rows() for parameter in parameters)
            return paddle.zeros([])

        monkeypatch.setattr(paddle.nn.utils, name, clip)
        options = {"clip_norm": 2.5} if of == "norm" else {"max": 2.5}

        reply = ADAPTER.call(Call(f"paddle.nn.utils.{name}", (SOME_ROWS, Gradient("b", Array.of(BIAS))), options))

        assert kinds == [True, False]
        assert read_values(reply.gradients) == [[[3.0, 0.0], [0.0, 0.0]], BIAS.tolist()]

    @pytest.mark.parametrize("of", ["Norm", "GlobalNorm"])
    def test_gradient_of_an_embedding_is_row_sparse(self, of: str, monkeypatch: pytest.MonkeyPatch) -> None:
        clipped: list[bool] = []
        original = paddle.nn.clip.ClipGradBase.__call__

        def clip(self: Any, pairs: Any) -> Any:
            clipped.extend(gradient.is_selected_rows() for _, gradient in pairs if gradient is not None)
            return original(self, pairs)

        monkeypatch.setattr(paddle.nn.clip.ClipGradBase, "__call__", clip)
        entry_point = ENTRY_POINTS[f"paddle.nn.ClipGradBy{of} [SGD, dynamic]"]
        beside = Gradient("b", Array.of(BIAS))

        reply = ADAPTER.call(Call(entry_point.name, (SOME_ROWS, beside), {"clip_norm": 2.5}))

        rows, bias = read_values(reply.gradients)
        assert sorted(clipped) == [False, True]
        assert rows == [[0.0, 0.0], [1.5 if of == "GlobalNorm" else 2.5, 0.0], [0.0, 0.0], [0.0, 0.0]]
        assert bias == [2.0 if of == "GlobalNorm" else 2.5, 0.0]
        assert read_values(reply.inputs)[0] == [[3.0, 0.0], [0.0, 0.0]]


@pytest.mark.parametrize("layout", ["strided", "transposed", "sliced"])
def test_layout_is_real_and_keeps_the_values(layout: str) -> None:
    values = np.arange(24, dtype=np.float32).reshape(2, 3, 4)

    tensor = make_tensor(Gradient("g", Array.of(values), layout=layout))

    assert not tensor.is_contiguous()
    assert tensor.numpy().tolist() == values.tolist()


def test_single_parameter_is_passed_without_a_list(monkeypatch: pytest.MonkeyPatch) -> None:
    taken: list[type] = []
    entry_point, original = ENTRY_POINTS["paddle.nn.utils.clip_grad_norm_"], paddle.nn.utils.clip_grad_norm_

    def clip(parameters: Any, *arguments: Any, **options: Any) -> Any:
        taken.append(type(parameters))
        return original(parameters, *arguments, **options)

    monkeypatch.setattr(paddle.nn.utils, "clip_grad_norm_", clip)
    single, listed = ask(entry_point, WEIGHT, as_single=True), ask(entry_point, WEIGHT)

    assert issubclass(taken[0], paddle.Tensor)
    assert taken[1] is list
    assert (single.gradients, single.norm) == (listed.gradients, listed.norm)


@pytest.mark.parametrize(
    "entry_point",
    [one for one in ENTRY_POINTS.values() if "compiles" in one.features and "ByValue" not in one.name],
    ids=attrgetter("name"),
)
def test_compiled_option_runs_a_static_program(entry_point: EntryPoint, monkeypatch: pytest.MonkeyPatch) -> None:
    dynamic: list[bool] = []
    original = paddle.optimizer.SGD

    def make_optimizer(*arguments: Any, **options: Any) -> Any:
        dynamic.append(paddle.in_dynamic_mode())
        return original(*arguments, **options)

    monkeypatch.setattr(paddle.optimizer, "SGD", make_optimizer)
    compiled, alone = ask(entry_point, WEIGHT, BIAS, compiled=True), ask(entry_point, WEIGHT, BIAS)

    assert dynamic == [False, True]
    assert read_values(compiled.gradients) == read_values(alone.gradients)


def test_groups_reach_the_optimizer(monkeypatch: pytest.MonkeyPatch) -> None:
    passed: list[Any] = []
    original = paddle.optimizer.SGD

    def make_optimizer(*arguments: Any, **options: Any) -> Any:
        passed.append(options["parameters"])
        return original(*arguments, **options)

    monkeypatch.setattr(paddle.optimizer, "SGD", make_optimizer)
    gradients = tuple(Gradient("g", Array.of(BIAS), group=number) for number in (0, 1))

    ADAPTER.call(Call("paddle.nn.ClipGradByGlobalNorm [SGD, dynamic]", gradients, {"clip_norm": 2.5}))

    assert [len(group["params"]) for group in passed[0]] == [1, 1]


FLEET = "paddle.distributed.fleet.distributed_optimizer(ClipGradByGlobalNorm)"


@pytest.mark.parametrize(("way", "placements"), [("pp", {"pp": 0}), ("sharding", {}), ("dp", {"dp": 0})])
def test_fleet_refuses_gradients_that_its_processes_do_not_have(way: str, placements: dict[str, int | str]) -> None:
    gradient = Gradient("g", Array.of(WEIGHT), placements=placements)

    with pytest.raises(Unsupported):
        ADAPTER.call(Call(f"{FLEET}[{way}]", (gradient,), {"clip_norm": 1.0, "mesh": f"{way}=2"}))
