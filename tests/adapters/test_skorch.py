"""Compare the skorch adapter with direct calls of skorch. Needs skorch."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import pytest

try:
    from gradclip_adapters.frameworks.torch_based.skorch import SkorchAdapter
except ImportError as error:
    if "skorch" in os.environ.get("GRADCLIP_REQUIRE", "").split(","):
        raise
    pytest.skip(f"skorch is not installed in this environment: {error}", allow_module_level=True)

import skorch
import torch
from skorch.callbacks import GradientNormClipping
from torch_calls import DTYPES, THRESHOLDS, answer_by_adapter, answer_by_hand

from gradclip_adapters.contract import FEATURES, Unsupported

ADAPTER = SkorchAdapter()
SUBJECTS = {subject.name: subject for subject in ADAPTER.subjects()}


def clip_by_hand(subject: str, parameters: Sequence[torch.nn.Parameter], threshold: float) -> Any:
    """Call the function that the entry point names, without the adapter."""
    named = [(str(number), parameter) for number, parameter in enumerate(parameters)]
    return GradientNormClipping(threshold).on_grad_computed(None, named_parameters=named)


def test_contract_defines_every_feature() -> None:
    assert {feature for subject in SUBJECTS.values() for feature in subject.features} <= set(FEATURES)


def test_about_gives_the_imported_versions() -> None:
    about = ADAPTER.about()

    assert about.version == skorch.__version__
    assert about.environment["torch"] == torch.__version__


@pytest.mark.parametrize("subject", sorted(SUBJECTS))
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("threshold", THRESHOLDS)
def test_adapter_answers_like_a_direct_call(subject: str, dtype: str, threshold: float) -> None:
    by_hand = answer_by_hand(lambda parameters: clip_by_hand(subject, parameters, threshold), dtype)

    assert answer_by_adapter(ADAPTER, subject, dtype, threshold) == by_hand


def test_adapter_answers_like_a_net_in_training() -> None:
    net = skorch.NeuralNetRegressor(
        torch.nn.Linear,
        module__in_features=2,
        module__out_features=1,
        callbacks=[("clip", GradientNormClipping(0.5))],
        callbacks__print_log=None,
        train_split=None,
        max_epochs=1,
    )
    net.fit(torch.ones(4, 2), torch.full((4, 1), 100.0))

    squares = [float((one.grad.double() ** 2).sum()) for one in net.module_.parameters() if one.grad is not None]
    assert sum(squares) == pytest.approx(0.25, rel=1e-5)


def test_order_of_the_norm_reaches_skorch() -> None:
    subject = "skorch.callbacks.GradientNormClipping"

    gradients, _ = answer_by_adapter(ADAPTER, subject, "float64", 29.5 / 2, norm_type=1.0)

    assert gradients[0] is not None
    assert gradients[0].numpy()[0, 0] == pytest.approx(1.5, rel=1e-6)


def test_single_tensor_without_a_name_is_refused() -> None:
    with pytest.raises(Unsupported, match="pairs of a name and a parameter"):
        answer_by_adapter(ADAPTER, "skorch.callbacks.GradientNormClipping", "float32", 1.5, as_single=True)
