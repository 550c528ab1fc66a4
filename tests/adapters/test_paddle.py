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
    from gradclip_adapters.frameworks.paddle import PaddleAdapter
    from gradclip_adapters.frameworks.paddle_functions import make_tensor

ADAPTER = PaddleAdapter()
#: The entry points of one process. `test_distributed_engines` tests the others.
SUBJECTS = {subject.name: subject for subject in ADAPTER.subjects() if "distributed" not in subject.features}
#: Paddle 3.3 has no ClipGradByValue for the intermediate representation that its static programs use by default, and no
#: clip of errors. `set_gradient_clip` finds no parameters in such a program.
BROKEN = "paddle.nn.ClipGradByValue [SGD, static]"
ERRORS = "paddle.nn.clip.ErrorClipByValue [static]"
SETTING = "paddle.nn.clip.set_gradient_clip [ClipGradByGlobalNorm, static]"
WORKING = [subject for name, subject in SUBJECTS.items() if name not in (BROKEN, ERRORS, SETTING)]
OPTIMIZERS = [subject for subject in WORKING if "optimizer" in subject.features]
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


@pytest.mark.parametrize("subject", OPTIMIZERS, ids=get_name)
class TestOptimizer:
    def test_learning_rate_scales_the_clipped_gradient(self, subject: EntryPoint) -> None:
        if "learning_rate" not in subject.features:
            with pytest.raises(Unsupported, match="shows neither the learning rate"):
                ask(subject, WEIGHT, BIAS, learning_rate=0.5)
            return
        whole = read_values(ask(subject, WEIGHT, BIAS).gradients)
        half = read_values(ask(subject, WEIGHT, BIAS, learning_rate=0.5).gradients)

        assert half[1][0] == whole[1][0] / 2


@pytest.mark.parametrize("subject", [SUBJECTS[name] for name in SUBJECTS if "static" in name], ids=get_name)
class TestStatic:
    def test_program_without_a_loss_is_unsupported(self, subject: EntryPoint) -> None:
        with pytest.raises(Unsupported, match="needs a loss"):
            ask(subject, None)

    def test_too_many_gradients_for_a_program_are_unsupported(self, subject: EntryPoint) -> None:
        with pytest.raises(Unsupported, match="at most 500"):
            ask(subject, *[BIAS] * 501)


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


def train(way: str, make_optimizer: Any) -> tuple[list[Any], list[Any], Any]:
    """Take a step of a real network. Return the gradients, the change of the parameters, and the optimizer."""
    paddle.seed(0)
    layers = paddle.nn.Sequential(paddle.nn.Linear(2, 3), paddle.nn.Tanh(), paddle.nn.Linear(3, 1))
    loss = paddle.nn.functional.mse_loss(layers(paddle.to_tensor([[3.0, -4.0]])), paddle.to_tensor([[100.0]]))
    loss.backward()
    gradients = [parameter.grad.numpy().copy() for parameter in layers.parameters()]
    before = [parameter.numpy().copy() for parameter in layers.parameters()]
    optimizer = make_optimizer(layers)
    if way == "minimize":
        optimizer.minimize(loss)
    else:
        optimizer.step()
    changes = [old - new.numpy() for old, new in zip(before, layers.parameters(), strict=True)]
    return gradients, changes, optimizer


class TestTrainingStep:
    """Compare the adapter with a step of a real network, with the usual numbers of the optimizers."""

    @pytest.mark.parametrize("way", ["minimize", "step"])
    def test_sgd(self, way: str) -> None:
        clip = paddle.nn.ClipGradByGlobalNorm(2.5)
        gradients, changes, _ = train(way, lambda net: paddle.optimizer.SGD(1.0, net.parameters(), grad_clip=clip))
        name = "SGD.minimize" if way == "minimize" else "SGD"

        reply = ask(SUBJECTS[f"paddle.nn.ClipGradByGlobalNorm [{name}, dynamic]"], *gradients)

        for got, want in zip(read_values(reply.gradients), changes, strict=True):
            np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-6)
        assert sum(np.sum(change**2) for change in changes) == pytest.approx(6.25, rel=1e-4)

    @pytest.mark.parametrize("name", ["Adam", "AdamW"])
    def test_adam(self, name: str) -> None:
        clip = paddle.nn.ClipGradByGlobalNorm(2.5)
        make = getattr(paddle.optimizer, name)
        gradients, _, adam = train("step", lambda net: make(beta1=0.75, parameters=net.parameters(), grad_clip=clip))
        moments = [value.numpy() for key, value in adam.state_dict().items() if "_moment1_" in key]

        reply = ask(SUBJECTS[f"paddle.nn.ClipGradByGlobalNorm [{name}, dynamic]"], *gradients)

        # With a beta1 of 3/4, a fourth of the clipped gradient is exact.
        assert read_values(reply.gradients) == [(4 * moment).tolist() for moment in moments]

    def test_clip_in_each_group(self) -> None:
        def make_optimizer(layers: Any) -> Any:
            groups = [
                {"params": layers[number].parameters(), "grad_clip": paddle.nn.ClipGradByGlobalNorm(2.5)}
                for number in (0, 2)
            ]
            return paddle.optimizer.SGD(1.0, groups)

        gradients, changes, _ = train("step", make_optimizer)
        named = tuple(Gradient("g", Array.of(one), group=number // 2) for number, one in enumerate(gradients))
        subject = SUBJECTS["paddle.nn.ClipGradByGlobalNorm [SGD, a clip in each group]"]

        reply = ADAPTER.call(Call(subject.name, named, {"clip_norm": 2.5}))

        for got, want in zip(read_values(reply.gradients), changes, strict=True):
            np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-6)
        for layer in (changes[:2], changes[2:]):
            assert sum(np.sum(change**2) for change in layer) == pytest.approx(6.25, rel=1e-4)


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
    "subject", [one for one in OPTIMIZERS if "compiles" in one.features and "ByValue" not in one.name], ids=get_name
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
