"""The adapter of Paddle 1.8 fluid; runs in its own Python 3.7, with a pytest of that time.

What the adapter converts and calls is tested, not how fluid clips.
"""

from __future__ import annotations

import hashlib
import importlib
import inspect
import os
import warnings

import numpy as np
import pytest

import gradclip_adapters
from gradclip_adapters.contract import Array, Call, FrameworkRaised, Gradient, Unsupported

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    if "paddle-fluid" in os.environ.get("GRADCLIP_REQUIRE", "").split(","):
        import paddle.fluid as fluid
    else:
        fluid = pytest.importorskip("paddle.fluid", reason="paddlepaddle 1.8 is not installed in this Python")
    from gradclip_adapters.paddle_fluid import PaddleFluidAdapter

ADAPTER = PaddleFluidAdapter()
SUBJECTS = {subject.name: subject for subject in ADAPTER.subjects()}
OPTIMIZERS = [subject for subject in SUBJECTS.values() if "optimizer" in subject.features]
WEIGHT = np.array([[3.0, 0.0], [0.0, 0.0]], dtype=np.float32)
BIAS = np.array([4.0, 0.0], dtype=np.float32)
#: Bits that arithmetic easily loses: signed zeros, NaN, infinities, a subnormal.
AWKWARD = np.array([0.0, -0.0, np.nan, np.inf, -np.inf, 1e-40], dtype=np.float32)
HALVED = {
    "clip_by_value": ({"max": 2.5}, [2.5, 2.5]),
    "clip_by_norm": ({"clip_norm": 1.5}, [1.5, 1.5]),
    "clip_by_global_norm": ({"clip_norm": 2.5}, [1.5, 2.0]),
}


def named(subject):
    """The subject's name as the id of a test."""
    return subject.name


def ask(subject, *arrays, excluded=(), **options):
    """The adapter's reply for these gradients, with options that clip unless others are given."""
    gradients = tuple(
        Gradient(f"g{number}", None if array is None else Array.of(array), need_clip=number not in excluded)
        for number, array in enumerate(arrays)
    )
    return ADAPTER.call(Call(subject.name, gradients, dict(HALVED[subject.operation][0], **options)))


def values_of(arrays):
    """The arrays as nested lists, None staying None."""
    return [None if array is None else array.numpy().tolist() for array in arrays]


def test_about_names_the_framework():
    about = ADAPTER.about()

    assert about.framework == "Paddle fluid"
    assert about.version.startswith("1.8.")


@pytest.mark.parametrize("subject", SUBJECTS.values(), ids=named)
def test_every_subject_clips(subject):
    _, (weight, bias) = HALVED[subject.operation]

    reply = ask(subject, WEIGHT, BIAS)

    assert values_of(reply.gradients) == [[[weight, 0.0], [0.0, 0.0]], [bias, 0.0]]


@pytest.mark.parametrize("subject", OPTIMIZERS, ids=named)
class TestOptimizer:
    def test_predicate_excludes_by_the_parameters_name(self, subject):
        weight, bias = values_of(ask(subject, WEIGHT, BIAS, excluded=(0,)).gradients)

        assert weight == WEIGHT.tolist()
        assert bias[0] < BIAS[0]

    def test_awkward_bits_come_through_untouched(self, subject):
        reply = ask(subject, AWKWARD.reshape(2, 3), AWKWARD, excluded=(0, 1))

        assert [array.data for array in reply.gradients] == [AWKWARD.tobytes()] * 2

    def test_learning_rate_scales_what_was_clipped(self, subject):
        whole = values_of(ask(subject, WEIGHT, BIAS).gradients)
        half = values_of(ask(subject, WEIGHT, BIAS, learning_rate=0.5).gradients)

        assert half[1][0] == whole[1][0] / 2


@pytest.mark.parametrize("subject", [subject for subject in SUBJECTS.values() if "set_" in subject.name], ids=named)
class TestSetGradientClip:
    def test_gradients_before_come_from_the_same_run(self, subject):
        assert values_of(ask(subject, WEIGHT, BIAS).inputs) == [WEIGHT.tolist(), BIAS.tolist()]

    def test_gradients_keep_the_order_of_the_parameters(self, subject):
        ones = [np.full(width, 0.25, np.float32) for width in range(1, 5)]

        assert values_of(ask(subject, *ones).gradients) == [one.tolist() for one in ones]

    def test_warning_is_reported(self, subject):
        assert any("not recommended" in warning for warning in ask(subject, BIAS).warnings)

    def test_excluded_gradient_is_untouched(self, subject):
        assert values_of(ask(subject, WEIGHT, BIAS, excluded=(1,)).gradients)[1] == BIAS.tolist()


@pytest.mark.parametrize("subject", SUBJECTS.values(), ids=named)
class TestEverySubject:
    def test_none_stays_none_at_its_place(self, subject):
        replied = values_of(ask(subject, None, WEIGHT, None, BIAS).gradients)

        assert [value is None for value in replied] == [True, False, True, False]

    @pytest.mark.parametrize(
        ("array", "text"),
        [
            (None, "needs a loss"),
            (np.float32(3), "no 0-d tensors"),
            (BIAS.astype(np.float16), "no CPU kernel for float16"),
        ],
    )
    def test_what_fluid_cannot_hold_is_unsupported(self, subject, array, text):
        with pytest.raises(Unsupported, match=text):
            ask(subject, array)

    def test_size_zero_stands_beside_others(self, subject):
        if "GlobalNorm" in subject.name or "set_gradient_clip" in subject.name:
            with pytest.raises((Unsupported, FrameworkRaised), match=r"size zero|numel|Grad"):
                ask(subject, np.zeros((0, 2), np.float32), BIAS)
            return
        empty, bias = ask(subject, np.zeros((0, 2), np.float32), BIAS).gradients

        assert empty.shape == (0, 2)
        assert bias.numpy()[0] < BIAS[0]

    def test_unknown_option_is_unsupported(self, subject):
        with pytest.raises(Unsupported, match="no option eps"):
            ask(subject, BIAS, eps=1.0)

    def test_what_fluid_raises_leaves_it_in_static_mode(self, subject):
        bad = {"max": 1.0, "min": 2.0} if subject.operation == "clip_by_value" else {"clip_norm": "wrong"}

        with pytest.raises(FrameworkRaised):
            ask(subject, BIAS, **bad)

        assert not fluid.in_dygraph_mode()
        assert values_of(ask(subject, BIAS).gradients)[0][0] < BIAS[0]


@pytest.mark.parametrize("subject", [subject for subject in SUBJECTS.values() if "static" in subject.name], ids=named)
def test_more_gradients_than_a_program_can_be_built_from_are_unsupported(subject):
    with pytest.raises(Unsupported, match="time quadratic in its gradients"):
        ask(subject, *[BIAS] * 501)


def test_more_elements_than_the_norm_kernel_gets_through_are_unsupported():
    with pytest.raises(Unsupported, match="time quadratic in the elements"):
        ask(SUBJECTS["paddle.fluid.clip.GradientClipByNorm [SGD, dygraph]"], np.zeros(100001, np.float32))


def test_both_bounds_of_a_value_clip_are_passed_on():
    subject = SUBJECTS["paddle.fluid.clip.GradientClipByValue [SGD, static]"]

    assert values_of(ask(subject, np.array([-3.0, 0.0, 3.0], np.float32), min=-0.5, max=1.0).gradients) == [
        [-0.5, 0.0, 1.0]
    ]


@pytest.mark.parametrize("subject", OPTIMIZERS, ids=named)
def test_the_frameworks_own_clip_is_what_answers(subject, monkeypatch):
    monkeypatch.setattr(fluid.clip.GradientClipBase, "__call__", lambda self, pairs: pairs)

    assert values_of(ask(subject, WEIGHT, BIAS).gradients) == [WEIGHT.tolist(), BIAS.tolist()]


def test_claims_stand_in_the_installed_documentation():
    # Python 3.7 has no tomllib; a pytest of that time brings tomli.
    tomli = pytest.importorskip("tomli", reason="tomli is not installed in this Python")
    folder = os.path.join(os.path.dirname(gradclip_adapters.__file__), "claims")
    with open(os.path.join(folder, "paddle-fluid.toml"), "rb") as stream:
        claims = tomli.load(stream)["claim"]

    assert claims
    for claim in claims:
        module_name, _, name = claim["docstring"].rpartition(".")
        text = inspect.getdoc(getattr(importlib.import_module(module_name), name))
        assert claim["phrase"] in " ".join(text.split())
        assert hashlib.sha256(text.encode()).hexdigest() == claim["docstring_sha256"]


@pytest.mark.parametrize("subject", [one for one in OPTIMIZERS if "compiles" in one.features], ids=named)
def test_a_compiled_call_is_a_static_program(subject, monkeypatch):
    executed = []
    original = fluid.Executor

    def executor(place):
        executed.append(place)
        return original(place)

    monkeypatch.setattr(fluid, "Executor", executor)
    alone = ask(subject, WEIGHT, BIAS)
    assert not executed
    compiled = ask(subject, WEIGHT, BIAS, compiled=True)

    assert len(executed) == 1
    assert values_of(compiled.gradients) == values_of(alone.gradients)
