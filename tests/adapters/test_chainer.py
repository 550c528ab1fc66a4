"""Compare the Chainer adapter with direct calls of Chainer. Needs Chainer."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import pytest

try:
    from gradclip_adapters.frameworks.chainer import ChainerAdapter
except ImportError as error:
    if "chainer" in os.environ.get("GRADCLIP_REQUIRE", "").split(","):
        raise
    pytest.skip(f"Chainer is not installed in this environment: {error}", allow_module_level=True)

import chainer
from chainer.optimizer_hooks import GradientClipping, GradientHardClipping

from gradclip_adapters.contract import FEATURES, Array, Call, FrameworkRaised, Gradient, Unsupported

ADAPTER = ChainerAdapter()
SUBJECTS = {subject.name: subject for subject in ADAPTER.subjects()}
NORM = "chainer.optimizer_hooks.GradientClipping [SGD]"
VALUE = "chainer.optimizer_hooks.GradientHardClipping [SGD]"
VALUES = ([[3.0, -4.0, 0.5], [0.0, -0.0, 12.0]], [1.0, 2.0], 7.0)


def make_gradients(dtype: str) -> tuple[Gradient, ...]:
    """Return three gradients and a None among them."""
    first, *rest = (Gradient(f"g{n}", Array.of(np.array(values, dtype))) for n, values in enumerate(VALUES))
    return (first, Gradient("none", None), *rest)


def step_by_hand(dtype: str, hook: Any, rate: float) -> list[np.ndarray[Any, Any]]:
    """Return the parameters after a step from zero, without the adapter."""
    chain = chainer.ChainList()
    for values in VALUES:
        link = chainer.Link()
        with link.init_scope():
            link.weight = chainer.Parameter(np.zeros(np.shape(values), dtype))
        link.weight.grad = np.array(values, dtype)
        chain.append(link)
    optimizer = chainer.optimizers.SGD(rate).setup(chain)
    optimizer.add_hook(hook)
    optimizer.update()
    return [link.weight.array for link in chain]


def test_subjects_have_known_features() -> None:
    assert set(SUBJECTS) == {NORM, VALUE}
    assert {feature for subject in SUBJECTS.values() for feature in subject.features} <= set(FEATURES)
    assert ADAPTER.about().version == chainer.__version__


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
@pytest.mark.parametrize(
    ("subject", "options", "hook"),
    [
        (NORM, {"clip_norm": 1.5}, GradientClipping(1.5)),
        (NORM, {"clip_norm": 64.0}, GradientClipping(64.0)),
        (VALUE, {"min": -1.0, "max": 2.0}, GradientHardClipping(-1.0, 2.0)),
    ],
)
def test_adapter_answers_like_a_direct_call(subject: str, options: Any, hook: Any, dtype: str) -> None:
    moved = step_by_hand(dtype, hook, 0.5)

    reply = ADAPTER.call(Call(subject, make_gradients(dtype), {**options, "learning_rate": 0.5}))

    assert reply.gradients[1] is None
    found = [array for array in reply.gradients if array is not None]
    assert [array.dtype for array in found] == [dtype] * 3
    for array, expected in zip(found, moved, strict=True):
        np.testing.assert_array_equal(array.numpy(), -expected)


@pytest.mark.parametrize("option", ["norm_type", "error_if_nonfinite", "need_clip"])
def test_option_that_chainer_does_not_have_is_refused_by_chainer(option: str) -> None:
    with pytest.raises(FrameworkRaised, match=f"unexpected keyword argument '{option}'"):
        ADAPTER.call(Call(NORM, make_gradients("float32"), {"clip_norm": 1.0, option: 1.0}))


def test_row_sparse_gradient_is_unsupported() -> None:
    gradient = Gradient("a", Array.of(np.ones(2, np.float32)), rows=(0, 1), height=4)

    with pytest.raises(Unsupported, match="row-sparse"):
        ADAPTER.call(Call(NORM, (gradient,), {"clip_norm": 1.0}))
