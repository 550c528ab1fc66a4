"""Compare the MMEngine adapter with direct calls of MMEngine. Needs MMEngine."""

from __future__ import annotations

import os
import warnings
from collections.abc import Sequence
from typing import Any

import pytest

try:
    with warnings.catch_warnings():
        # MMEngine uses deprecated parts of torch.
        warnings.simplefilter("ignore")
        from gradclip_adapters.frameworks.torch_based.mmengine import MMEngineAdapter
except ImportError as error:
    if "mmengine" in os.environ.get("GRADCLIP_REQUIRE", "").split(","):
        raise
    pytest.skip(f"MMEngine is not installed in this environment: {error}", allow_module_level=True)

import mmengine
import torch
from mmengine.optim import OptimWrapper
from torch_calls import DTYPES, THRESHOLDS, answer_by_adapter, answer_by_hand

from gradclip_adapters.contract import FEATURES

ADAPTER = MMEngineAdapter()
SUBJECTS = {subject.name: subject for subject in ADAPTER.subjects()}


def clip_by_hand(subject: str, parameters: Sequence[torch.nn.Parameter], threshold: float) -> Any:
    """Call the function that the entry point names, without the adapter."""
    clip_grad = {"max_norm": threshold} if "max_norm" in subject else {"type": "value", "clip_value": threshold}
    OptimWrapper(torch.optim.SGD(parameters, lr=1.0), clip_grad=clip_grad).step()
    for parameter in parameters:
        if parameter.grad is not None:
            parameter.grad = torch.zeros_like(parameter) - parameter.detach()


def test_contract_defines_every_feature() -> None:
    assert {feature for subject in SUBJECTS.values() for feature in subject.features} <= set(FEATURES)


def test_about_gives_the_imported_versions() -> None:
    about = ADAPTER.about()

    assert about.version == mmengine.__version__
    assert about.environment["torch"] == torch.__version__


@pytest.mark.parametrize("subject", sorted(SUBJECTS))
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("threshold", THRESHOLDS)
def test_adapter_answers_like_a_direct_call(subject: str, dtype: str, threshold: float) -> None:
    by_hand = answer_by_hand(lambda parameters: clip_by_hand(subject, parameters, threshold), dtype)

    assert answer_by_adapter(ADAPTER, subject, dtype, threshold) == by_hand
