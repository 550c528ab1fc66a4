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
    MissingDevice,
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
EXCLUDING = [subject for subject in WORKING if "excludes" in subject.features]
WEIGHT = np.array([[3.0, 0.0], [0.0, 0.0]], dtype=np.float32)
BIAS = np.array([4.0, 0.0], dtype=np.float32)
#: Values whose bits arithmetic easily loses: signed zeros, NaN, infinities, a subnormal.
AWKWARD = np.array([0.0, -0.0, np.nan, np.inf, -np.inf, 1e-40], dtype=np.float32)
HALVED = {
    "clip_by_value": ({"max": 2.5}, [2.5, 2.5]),
    "clip_by_norm": ({"clip_norm": 1.5}, [1.5, 1.5]),
    "clip_by_global_norm": ({"clip_norm": 2.5}, [1.5, 2.0]),
}


def test_missing_device_is_named() -> None:
    with pytest.raises(MissingDevice, match="finds no device 'quantum' on this machine"):
        PaddleAdapter("quantum")
    assert ADAPTER.about().environment["device"] == "cpu"


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
    return ADAPTER.call(Call(subject.name, gradients, {**HALVED[subject.operation][0], **options}))


def read_values(arrays: tuple[Array | None, ...] | None) -> list[Any]:
    """Return the arrays as nested lists, and None for None."""
    assert arrays is not None
    return [None if array is None else array.numpy().tolist() for array in arrays]


def test_about_gives_the_framework_and_its_device() -> None:
    about = ADAPTER.about()

    assert (about.framework, about.version) == ("Paddle", paddle.__version__)
    assert about.environment["device"] == "cpu"


@pytest.mark.parametrize("subject", WORKING, ids=get_name)
def test_every_entry_point_clips(subject: EntryPoint) -> None:
    _, (weight, bias) = HALVED[subject.operation]

    reply = ask(subject, WEIGHT, BIAS)

    # clip_grad_norm_ adds 1e-6 to a norm of 5. The others are exact here.
    tolerance = 1e-6 if subject.name.endswith("clip_grad_norm_") else 0
    expected = [[[weight, 0.0], [0.0, 0.0]], [bias, 0.0]]
    for got, want in zip(read_values(reply.gradients), expected, strict=True):
        np.testing.assert_allclose(got, want, rtol=tolerance)


def test_value_clip_in_a_static_program_gives_paddles_error() -> None:
    with pytest.raises(FrameworkRaised) as caught:
        ask(SUBJECTS[BROKEN], WEIGHT, BIAS)

    assert caught.value.kind == "NotImplementedError"
    assert paddle.in_dynamic_mode()


@pytest.mark.parametrize("subject", EXCLUDING, ids=get_name)
class TestExclusion:
    def test_excluded_weight_beside_an_included_bias(self, subject: EntryPoint) -> None:
        weight, bias = read_values(ask(subject, WEIGHT, BIAS, excluded=(0,)).gradients)

        assert weight == WEIGHT.tolist()
        assert bias[0] < BIAS[0]

    def test_excluded_bias_beside_an_included_weight(self, subject: EntryPoint) -> None:
        weight, bias = read_values(ask(subject, WEIGHT, BIAS, excluded=(1,)).gradients)

        assert weight[0][0] < WEIGHT[0, 0]
        assert bias == BIAS.tolist()

    def test_excluded_gradients_keep_every_bit(self, subject: EntryPoint) -> None:
        # A sum with the first moment, a zero, loses the sign of another zero.
        given = np.abs(AWKWARD) if "Adam" in subject.name else AWKWARD

        reply = ask(subject, given.reshape(2, 3), given, excluded=(0, 1))

        assert [array.data for array in reply.gradients if array] == [given.tobytes()] * 2


@pytest.mark.parametrize("subject", [one for one in WORKING if "none_grads" in one.features], ids=get_name)
def test_none_keeps_its_place(subject: EntryPoint) -> None:
    replied = read_values(ask(subject, None, WEIGHT, None, BIAS).gradients)

    if subject.name.endswith(("[called]", "[called, auto_skip_clip]")):
        # Paddle drops the pair. The adapter does not put it back.
        assert [np.shape(value) for value in replied] == [WEIGHT.shape, BIAS.shape]
        return
    assert [value is None for value in replied] == [True, False, True, False]
    assert [np.shape(replied[1]), np.shape(replied[3])] == [WEIGHT.shape, BIAS.shape]


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

    @pytest.mark.parametrize("shape", [(), (1, 1, 2)])
    def test_shape_without_a_linear_layer_is_clipped(self, subject: EntryPoint, shape: tuple[int, ...]) -> None:
        (clipped,) = read_values(ask(subject, np.full(shape, 4, np.float32)).gradients)

        assert np.shape(clipped) == shape
        assert 0 < np.max(clipped) < 4


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

    @pytest.mark.parametrize("of", ["norm", "value"])
    def test_function_on_parameters_ignores_need_clip(self, of: str) -> None:
        subject = SUBJECTS[f"paddle.nn.utils.clip_grad_{of}_"]

        assert ask(subject, WEIGHT, BIAS, excluded=(1,)).gradients == ask(subject, WEIGHT, BIAS).gradients


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


#: The entry points that refuse lists of several dtypes, or float64.
REFUSING = ("ClipGradByNorm", "clip_grad_norm_", "clip_by_norm", "Adam")


@pytest.mark.parametrize(
    "subject", [subject for subject in WORKING if not any(name in subject.name for name in REFUSING)], ids=get_name
)
def test_mixed_call_keeps_the_dtypes(subject: EntryPoint) -> None:
    reply = ask(subject, WEIGHT, BIAS.astype(np.float64))

    assert [array.dtype for array in reply.gradients if array] == ["float32", "float64"]


@pytest.mark.parametrize("subject", [one for name, one in SUBJECTS.items() if name != ERRORS], ids=get_name)
class TestRefusal:
    def test_dtype_without_a_kernel_is_tried(self, subject: EntryPoint) -> None:
        with pytest.raises((FrameworkRaised, Unsupported), match=r"kernel|data type"):
            ask(subject, BIAS.astype(np.float16))

    def test_unknown_option_gives_paddles_error(self, subject: EntryPoint) -> None:
        with pytest.raises(FrameworkRaised, match="unexpected keyword argument 'eps'"):
            ask(subject, BIAS, eps=1.0)


def test_error_of_paddle_carries_the_inputs() -> None:
    with pytest.raises(FrameworkRaised) as caught:
        ask(SUBJECTS["paddle.nn.ClipGradByNorm [called]"], BIAS, clip_norm=-1.0)

    assert caught.value.kind == "ValueError"
    assert read_values(caught.value.inputs) == [BIAS.tolist()]


class TestCalled:
    subject = SUBJECTS["paddle.nn.ClipGradByNorm [called]"]

    @pytest.mark.parametrize("layout", ["strided", "transposed", "sliced"])
    def test_layout_is_real_and_keeps_the_values(self, layout: str) -> None:
        values = np.arange(24, dtype=np.float32).reshape(2, 3, 4)

        tensor = make_tensor(Gradient("g", Array.of(values), layout=layout))

        assert not tensor.is_contiguous()
        assert tensor.numpy().tolist() == values.tolist()

    def test_excluded_gradient_is_the_same_object(self) -> None:
        assert ask(self.subject, BIAS, BIAS, excluded=(1,)).same_object == (False, True)

    def test_value_clip_passes_both_bounds(self) -> None:
        subject = SUBJECTS["paddle.nn.ClipGradByValue [called]"]
        reply = ask(subject, np.array([-3.0, 0.0, 3.0], np.float32), min=-0.5, max=1.0)

        assert read_values(reply.gradients) == [[-0.5, 0.0, 1.0]]

    def test_repeated_tensor_is_one_object(self) -> None:
        gradients = (Gradient("a", Array.of(BIAS)), Gradient("b", Array.of(BIAS), same_as=0))
        subject = SUBJECTS["paddle.nn.ClipGradByGlobalNorm [called]"]

        reply = ADAPTER.call(Call(subject.name, gradients, {"clip_norm": 1.0}))

        assert reply.gradients[0] == reply.gradients[1]
        assert reply.inputs == reply.gradients


class TestUtils:
    norm = SUBJECTS["paddle.nn.utils.clip_grad_norm_"]

    @pytest.mark.parametrize(("norm_type", "expected"), [(1.0, 7.0), (2.0, 5.0), (float("inf"), 4.0)])
    def test_returned_norm_is_the_norm_before_clipping(self, norm_type: float, expected: float) -> None:
        reply = ask(self.norm, WEIGHT, BIAS, norm_type=norm_type)

        assert read_values((reply.norm,)) == [expected]

    def test_error_if_nonfinite_leaves_the_gradients_unchanged(self) -> None:
        with pytest.raises(FrameworkRaised) as caught:
            ask(self.norm, BIAS, np.array([np.inf], np.float32), error_if_nonfinite=True)

        assert caught.value.kind == "RuntimeError"
        assert read_values(caught.value.inputs) == [BIAS.tolist(), [np.inf]]

    def test_generator_is_passed_to_paddle(self) -> None:
        # Paddle exhausts the generator before it clips. The suite reports that fault, so this test does not check it.
        assert read_values((ask(self.norm, WEIGHT, BIAS, as_generator=True).norm,)) == [5.0]

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


@pytest.mark.parametrize("subject", [s for s in WORKING if "Clip" in s.name], ids=get_name)
def test_answer_comes_from_the_clip_of_the_framework(subject: EntryPoint, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(paddle.nn.clip.ClipGradBase, "__call__", lambda self, pairs: pairs)

    assert read_values(ask(subject, WEIGHT, BIAS).gradients) == [WEIGHT.tolist(), BIAS.tolist()]


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


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"start": 4.0, "weight_decay": 0.25}, [-1.5, -1.0]),
        ({"steps": 2}, [3.0, 4.0]),
        ({"accumulate": 2}, [1.5, 2.0]),
    ],
)
def test_training_options_reach_the_optimizer(options: dict[str, Any], expected: list[float]) -> None:
    gradients = tuple(Gradient("g", Array.of(np.array([value], np.float32))) for value in (3.0, 4.0))
    subject = "paddle.nn.ClipGradByGlobalNorm [SGD, dynamic]"

    reply = ADAPTER.call(Call(subject, gradients, {"clip_norm": 2.5, **options}))

    assert [values[0] for values in read_values(reply.gradients)] == pytest.approx(expected, rel=1e-6)


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


@pytest.mark.parametrize("layout", ["contiguous", "strided"])
@pytest.mark.parametrize("shape", [(), (4,)])
def test_functions_reuse_the_tensors_of_an_earlier_call(shape: tuple[int, ...], layout: str) -> None:
    values = np.full(shape, 3.0, np.float32)
    gradients = (Gradient("g", Array.of(values), layout=layout),)

    for name, options in (
        ("paddle.nn.clip.clip_by_norm", {"clip_norm": 8.0}),
        ("paddle.clip", {"max": 2.0, "min": -2.0}),
        ("paddle.Tensor.clip_", {"max": 2.0, "min": -2.0}),
    ):
        reply = ADAPTER.call(Call(name, gradients, {**options, "reused": 2}))

        assert read_values(reply.gradients) == [np.full(shape, 2.0 if "max" in options else 3.0).tolist()]


FLEET = "paddle.distributed.fleet.distributed_optimizer(ClipGradByGlobalNorm)"


@pytest.mark.parametrize(("way", "copied"), [("pp", [3.0]), ("sharding", None), ("dp", [3.0, 4.0])])
def test_processes_of_fleet_share_one_norm(way: str, copied: list[float] | None) -> None:
    def make(values: list[float], **placements: int | str) -> Gradient:
        return Gradient("g", Array.of(np.array(values, np.float32)), placements=placements)

    owned = [] if way == "dp" else [make([2.0, 4.0], **{way: "owned by 0"}), make([6.0, 8.0], **{way: "owned by 1"})]
    gradients = [*owned, *([make(copied)] if copied else [])]
    norm = np.sqrt(sum(float(np.sum(g.array.numpy() ** 2)) for g in gradients if g.array is not None))
    reply = ADAPTER.call(Call(f"{FLEET}[{way}]", tuple(gradients), {"clip_norm": 1.0, "mesh": f"{way}=2"}))

    assert not reply.apart
    for gradient, result in zip(gradients, reply.gradients, strict=True):
        assert gradient.array is not None
        assert result is not None
        np.testing.assert_allclose(result.numpy(), gradient.array.numpy() / norm, rtol=1e-5)


@pytest.mark.parametrize(("way", "placements"), [("pp", {"pp": 0}), ("sharding", {}), ("dp", {"dp": 0})])
def test_fleet_refuses_gradients_that_its_processes_do_not_have(way: str, placements: dict[str, int | str]) -> None:
    gradient = Gradient("g", Array.of(WEIGHT), placements=placements)

    with pytest.raises(Unsupported):
        ADAPTER.call(Call(f"{FLEET}[{way}]", (gradient,), {"clip_norm": 1.0, "mesh": f"{way}=2"}))
