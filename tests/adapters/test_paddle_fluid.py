"""Test what the adapter of Paddle 1.8 fluid converts and calls, not how fluid clips.

These tests run in fluid's own Python with a pytest that supports it.
"""

from __future__ import annotations

import hashlib
import importlib
import inspect
import os
import warnings
from operator import attrgetter
from pathlib import Path

import numpy as np
import pytest

import gradclip_adapters
from gradclip_adapters.contract import Array, Call, FrameworkRaised, Gradient, Unsupported
from gradclip_adapters.operations import OPERATIONS

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    if "paddle-fluid" in os.environ.get("GRADCLIP_REQUIRE", "").split(","):
        from paddle import fluid
    else:
        fluid = pytest.importorskip("paddle.fluid", reason="paddlepaddle 1.8 is not installed in this Python")
    from gradclip_adapters.frameworks.paddle_fluid import PaddleFluidAdapter

ADAPTER = PaddleFluidAdapter()
ENTRY_POINTS = {entry_point.name: entry_point for entry_point in ADAPTER.subjects()}
ERRORS = "paddle.fluid.clip.ErrorClipByValue [static]"
OPTIMIZERS = [entry_point for entry_point in ENTRY_POINTS.values() if "optimizer" in entry_point.features]
#: fluid clips all gradients with the clip of the last parameter. Here, that one changes nothing.
BESIDE = [entry_point for entry_point in OPTIMIZERS if "beside another" in entry_point.name]
WEIGHT = np.array([[3.0, 0.0], [0.0, 0.0]], dtype=np.float32)
BIAS = np.array([4.0, 0.0], dtype=np.float32)
#: Options that clip the two gradients above.
CLIPPING = {
    "clip_by_value": {"max": 2.5},
    "clip_by_norm": {"clip_norm": 1.5},
    "clip_by_global_norm": {"clip_norm": 2.5},
}


def ask(entry_point, *arrays, excluded=(), **options):
    """Return the adapter's reply for these gradients. The default options clip them."""
    gradients = tuple(
        Gradient("g", Array.of(array), need_clip=number not in excluded) for number, array in enumerate(arrays)
    )
    return ADAPTER.call(Call(entry_point.name, gradients, dict(CLIPPING[entry_point.operation], **options)))


def read_values(arrays):
    return [None if array is None else array.numpy().tolist() for array in arrays]


@pytest.mark.parametrize(
    "entry_point", [one for one in ENTRY_POINTS.values() if "[set_gradient_clip, " in one.name], ids=attrgetter("name")
)
def test_inputs_come_from_the_same_run_as_the_clipped_gradients(entry_point):
    assert read_values(ask(entry_point, WEIGHT, BIAS).inputs) == [WEIGHT.tolist(), BIAS.tolist()]


@pytest.mark.parametrize(
    "entry_point", [one for one in ENTRY_POINTS.values() if one not in BESIDE], ids=attrgetter("name")
)
def test_error_of_fluid_leaves_static_mode(entry_point):
    bad = {"clip_norm": "wrong"} if OPERATIONS[entry_point.operation].is_by_norm else {"max": 1.0, "min": 2.0}

    with pytest.raises(FrameworkRaised):
        ask(entry_point, BIAS, **bad)

    assert not fluid.in_dygraph_mode()
    assert read_values(ask(entry_point, BIAS).gradients)[0][0] < BIAS[0]


def test_error_in_a_guard_of_devices_leaves_no_device():
    entry_point = ENTRY_POINTS["paddle.fluid.clip.GradientClipByGlobalNorm [SGD, static]"]

    with pytest.raises(FrameworkRaised):
        ask(entry_point, np.zeros(0, np.float32))

    assert ask(entry_point, BIAS).warnings == ()


def test_too_many_elements_for_the_norm_kernel_are_unsupported():
    with pytest.raises(Unsupported, match="time quadratic in the elements"):
        ask(ENTRY_POINTS["paddle.fluid.clip.GradientClipByNorm [SGD, dygraph]"], np.zeros(100001, np.float32))


def test_claims_quote_the_installed_documentation():
    # Python 3.7 has no tomllib. The pytest for it installs tomli.
    tomli = pytest.importorskip("tomli", reason="tomli is not installed in this Python")
    path = Path(gradclip_adapters.__file__).parent / "claims" / "paddle-fluid.toml"
    claims = tomli.loads(path.read_text(encoding="utf-8"))["claim"]

    assert claims
    for claim in claims:
        module_name, _, name = claim["docstring"].rpartition(".")
        text = inspect.getdoc(getattr(importlib.import_module(module_name), name))
        assert claim["phrase"] in " ".join(text.split())
        assert hashlib.sha256(text.encode()).hexdigest() == claim["docstring_sha256"]


@pytest.mark.parametrize(
    "entry_point", [one for one in OPTIMIZERS if "compiles" in one.features], ids=attrgetter("name")
)
def test_compiled_option_runs_a_static_program(entry_point, monkeypatch):
    executed = []
    original = fluid.Executor

    def make_executor(place):
        executed.append(place)
        return original(place)

    monkeypatch.setattr(fluid, "Executor", make_executor)
    alone = ask(entry_point, WEIGHT, BIAS)
    assert not executed
    compiled = ask(entry_point, WEIGHT, BIAS, compiled=True)

    assert len(executed) == 1
    assert read_values(compiled.gradients) == read_values(alone.gradients)


def test_each_group_has_a_clip_with_its_name(monkeypatch):
    passed = []
    original = fluid.clip.set_gradient_clip

    def note(clip, *arguments):
        passed.append(clip.group_name)
        return original(clip, *arguments)

    monkeypatch.setattr(fluid.clip, "set_gradient_clip", note)
    gradients = tuple(Gradient("g", Array.of(BIAS), group=number) for number in (0, 1))
    entry_point = "paddle.fluid.clip.GradientClipByGlobalNorm [set_gradient_clip, static]"

    ADAPTER.call(Call(entry_point, gradients, {"clip_norm": 2.5}))

    assert passed == ["group0", "group1"]


def train(set_clips):
    """Take a step of a real network. Return its last two gradients, and the steps of these parameters."""
    scope, program = fluid.Scope(), fluid.Program()
    with fluid.scope_guard(scope), fluid.program_guard(program, fluid.Program()), fluid.unique_name.guard():
        data = fluid.data("data", [1, 2], "float32")
        hidden = fluid.layers.fc(data, 3, act="tanh", param_attr=fluid.initializer.Constant(0.25))
        output = fluid.layers.fc(hidden, 2, param_attr=fluid.initializer.Constant(0.5))
        loss = fluid.layers.reduce_sum(fluid.layers.square(output - 100.0))
        weight, bias = program.all_parameters()[-2:]
        set_clips(output, weight, bias)
        pairs = {one.name: gradient for one, gradient in fluid.optimizer.SGDOptimizer(1.0).minimize(loss)[1]}
        executor = fluid.Executor(fluid.CPUPlace())
        executor.run(fluid.default_startup_program())
        before = [np.array(scope.find_var(one.name).get_tensor()) for one in (weight, bias)]
        feed = {"data": np.array([[3.0, -4.0]], np.float32)}
        gradients = executor.run(feed=feed, fetch_list=[pairs[weight.name], pairs[bias.name], output])
        after = [np.array(scope.find_var(one.name).get_tensor()) for one in (weight, bias)]
    return gradients, [old - new for old, new in zip(before, after)]


def test_clip_of_errors_is_that_of_a_real_network():
    def set_clips(output, weight, bias):
        output._set_error_clip(fluid.clip.ErrorClipByValue(1.5))

    (_, clipped, output), _ = train(set_clips)
    error = 2 * (output[0] - np.float32(100))

    reply = ask(ENTRY_POINTS[ERRORS], error, max=1.5)

    # The bias of a layer has the gradient of its output, and so the clipped error.
    assert read_values(reply.gradients) == [clipped.tolist()]
    assert clipped.tolist() == [-1.5, -1.5]


def test_another_clip_of_a_real_network_clips_all_gradients():
    def set_clips(output, weight, bias):
        # The optimizer sorts by the names of the parameters, so the weight is the last one.
        others = [one for one in fluid.default_main_program().all_parameters() if one.name != weight.name]
        fluid.clip.set_gradient_clip(fluid.clip.GradientClipByNorm(1.5), others)
        fluid.clip.set_gradient_clip(fluid.clip.GradientClipByValue(float("inf")), [weight])

    (_, bias, _), (_, step) = train(set_clips)

    reply = ask(ENTRY_POINTS["paddle.fluid.clip.set_gradient_clip [GradientClipByNorm beside another, static]"], bias)

    assert read_values(reply.gradients) == [bias.tolist()]
    np.testing.assert_allclose(step, bias, rtol=1e-5)
    assert np.linalg.norm(step) > 100


@pytest.mark.parametrize("entry_point", BESIDE, ids=attrgetter("name"))
def test_each_clip_gets_its_own_parameters(entry_point, monkeypatch):
    passed = []
    original = fluid.clip.set_gradient_clip

    def note(clip, param_list):
        passed.append((type(clip).__name__, len(param_list)))
        return original(clip, param_list)

    monkeypatch.setattr(fluid.clip, "set_gradient_clip", note)

    ask(entry_point, WEIGHT, BIAS)
    ask(entry_point, WEIGHT, BIAS, excluded=(0,))

    of = entry_point.name.split("[")[1].split(" ")[0]
    assert passed == [(of, 2), ("GradientClipByValue", 1), (of, 1), ("GradientClipByValue", 1)]
