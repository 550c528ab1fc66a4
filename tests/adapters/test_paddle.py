"""Test what the Paddle adapter converts and calls, not how Paddle clips. Needs paddlepaddle 3."""

from __future__ import annotations

import os
import warnings
from typing import Any

import numpy as np
import pytest

from gradclip_adapters.contract import (
    Array,
    Call,
    EntryPoint,
    FrameworkRaised,
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
SUBJECTS = {subject.name: subject for subject in ADAPTER.subjects() if "distributed" not in subject.features}
#: Paddle 3.3 has no ClipGradByValue for the intermediate representation that its static programs use by default, and no
#: clip of errors. `set_gradient_clip` finds no parameters in such a program.
BROKEN = "paddle.nn.ClipGradByValue [SGD, static]"
ERRORS = "paddle.nn.clip.ErrorClipByValue [static]"
SETTING = "paddle.nn.clip.set_gradient_clip [ClipGradByGlobalNorm, static]"
WEIGHT = np.array([[3.0, 0.0], [0.0, 0.0]], dtype=np.float32)
BIAS = np.array([4.0, 0.0], dtype=np.float32)
#: Options that clip the two gradients above.
CLIPPING = {
    "clip_by_value": {"max": 2.5},
    "clip_by_norm": {"clip_norm": 1.5},
    "clip_by_global_norm": {"clip_norm": 2.5},
}


def get_name(subject: EntryPoint) -> str:
    """Return the name of an entry point, as the id of a test."""
    return subject.name


def ask(
    subject: EntryPoint, *arrays: np.ndarray[Any, Any] | None, excluded: tuple[int, ...] = (), **options: Any
) -> Reply:
    """Return the adapter's reply for these gradients. The default options clip them."""
    gradients = tuple(
        Gradient(f"g{number}", None if array is None else Array.of(array), need_clip=number not in excluded)
        for number, array in enumerate(arrays)
    )
    return ADAPTER.call(Call(subject.name, gradients, {**CLIPPING[subject.operation], **options}))


def read_values(arrays: tuple[Array | None, ...] | None) -> list[Any]:
    """Return the arrays as nested lists, and None for None."""
    assert arrays is not None
    return [None if array is None else array.numpy().tolist() for array in arrays]


def test_value_clip_in_a_static_program_gives_paddles_error() -> None:
    with pytest.raises(FrameworkRaised) as caught:
        ask(SUBJECTS[BROKEN], WEIGHT, BIAS)

    assert caught.value.kind == "NotImplementedError"
    assert paddle.in_dynamic_mode()


#: Rows 1 and 3 of four.
SOME_ROWS = Gradient("g", Array.of(np.array([[3.0, 0.0], [0.0, 0.0]], np.float32)), rows=(1, 3), height=4)


class TestBroken:
    def test_set_gradient_clip_is_called_and_clips_nothing(self, monkeypatch: pytest.MonkeyPatch) -> None:
        passed: list[Any] = []
        original = paddle.nn.clip.set_gradient_clip

        def note(clip: Any, parameters: Any) -> Any:
            passed.append((clip.clip_norm, parameters))
            return original(clip, parameters)

        monkeypatch.setattr(paddle.nn.clip, "set_gradient_clip", note)
        reply = ask(SUBJECTS[SETTING], WEIGHT, BIAS)

        assert passed == [(2.5, None)]
        assert read_values(reply.gradients) == [WEIGHT.tolist(), BIAS.tolist()]
        assert any("'set_gradient_clip' is not recommended" in warning for warning in reply.warnings)

    def test_list_of_parameters_gives_paddles_error(self) -> None:
        with pytest.raises(FrameworkRaised, match="'param_list' should be a list of Parameter"):
            ask(SUBJECTS[SETTING], WEIGHT, BIAS, excluded=(0,))

    def test_clip_of_errors_gives_paddles_error(self) -> None:
        with pytest.raises(FrameworkRaised, match="no attribute '_set_error_clip'"):
            ask(SUBJECTS[ERRORS], WEIGHT, BIAS)


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
        subject = SUBJECTS[f"paddle.nn.ClipGradBy{of} [SGD, dynamic]"]
        beside = Gradient("b", Array.of(BIAS))

        reply = ADAPTER.call(Call(subject.name, (SOME_ROWS, beside), {"clip_norm": 2.5}))

        rows, bias = read_values(reply.gradients)
        assert sorted(clipped) == [False, True]
        assert rows == [[0.0, 0.0], [1.5 if of == "GlobalNorm" else 2.5, 0.0], [0.0, 0.0], [0.0, 0.0]]
        assert bias == [2.0 if of == "GlobalNorm" else 2.5, 0.0]
        assert read_values(reply.inputs)[0] == [[3.0, 0.0], [0.0, 0.0]]


@pytest.mark.parametrize("subject", [one for name, one in SUBJECTS.items() if name != ERRORS], ids=get_name)
class TestRefusal:
    def test_unknown_option_gives_paddles_error(self, subject: EntryPoint) -> None:
        with pytest.raises(FrameworkRaised, match="unexpected keyword argument 'eps'"):
            ask(subject, BIAS, eps=1.0)


class TestCalled:
    subject = SUBJECTS["paddle.nn.ClipGradByNorm [called]"]

    @pytest.mark.parametrize("layout", ["strided", "transposed", "sliced"])
    def test_layout_is_real_and_keeps_the_values(self, layout: str) -> None:
        values = np.arange(24, dtype=np.float32).reshape(2, 3, 4)

        tensor = make_tensor(Gradient("g", Array.of(values), layout=layout))

        assert not tensor.is_contiguous()
        assert tensor.numpy().tolist() == values.tolist()


class TestUtils:
    norm = SUBJECTS["paddle.nn.utils.clip_grad_norm_"]

    def test_single_parameter_is_passed_without_a_list(self, monkeypatch: pytest.MonkeyPatch) -> None:
        taken: list[type] = []
        original = paddle.nn.utils.clip_grad_norm_

        def clip(parameters: Any, *arguments: Any, **options: Any) -> Any:
            taken.append(type(parameters))
            return original(parameters, *arguments, **options)

        monkeypatch.setattr(paddle.nn.utils, "clip_grad_norm_", clip)
        single, listed = ask(self.norm, WEIGHT, as_single=True), ask(self.norm, WEIGHT)

        assert issubclass(taken[0], paddle.Tensor)
        assert taken[1] is list
        assert (single.gradients, single.norm) == (listed.gradients, listed.norm)


@pytest.mark.parametrize(
    "subject",
    [one for one in SUBJECTS.values() if "compiles" in one.features and "ByValue" not in one.name],
    ids=get_name,
)
def test_compiled_option_runs_a_static_program(subject: EntryPoint, monkeypatch: pytest.MonkeyPatch) -> None:
    dynamic: list[bool] = []
    original = paddle.optimizer.SGD

    def make_optimizer(*arguments: Any, **options: Any) -> Any:
        dynamic.append(paddle.in_dynamic_mode())
        return original(*arguments, **options)

    monkeypatch.setattr(paddle.optimizer, "SGD", make_optimizer)
    compiled, alone = ask(subject, WEIGHT, BIAS, compiled=True), ask(subject, WEIGHT, BIAS)

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
