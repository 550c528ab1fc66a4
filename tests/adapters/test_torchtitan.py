"""Compare the torchtitan adapter with direct calls of torchtitan. Needs torchtitan."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import pytest

try:
    from gradclip_adapters.frameworks.torch_based.torchtitan import TorchtitanAdapter
except ImportError as error:
    if "torchtitan" in os.environ.get("GRADCLIP_REQUIRE", "").split(","):
        raise
    pytest.skip(f"torchtitan is not installed in this environment: {error}", allow_module_level=True)

import torch
import torchtitan
from torch_calls import DTYPES, THRESHOLDS, answer_by_adapter, answer_by_hand
from torchtitan.distributed.utils import clip_grad_norm_

from gradclip_adapters.contract import FEATURES, FrameworkRaised

ADAPTER = TorchtitanAdapter()
SUBJECTS = {subject.name: subject for subject in ADAPTER.subjects()}


def clip_by_hand(subject: str, parameters: Sequence[torch.nn.Parameter], threshold: float) -> Any:
    """Call the function that the entry point names, without the adapter."""
    foreach = {"True]": True, "False]": False, "None]": None}[subject.split("=")[1]]
    return clip_grad_norm_(parameters, threshold, foreach=foreach)


def test_contract_defines_every_feature() -> None:
    assert {feature for subject in SUBJECTS.values() for feature in subject.features} <= set(FEATURES)


def test_about_gives_the_imported_versions() -> None:
    about = ADAPTER.about()

    assert about.version == torchtitan.__version__
    assert about.environment["torch"] == torch.__version__


@pytest.mark.parametrize("subject", sorted(SUBJECTS))
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("threshold", THRESHOLDS)
def test_adapter_answers_like_a_direct_call(subject: str, dtype: str, threshold: float) -> None:
    by_hand = answer_by_hand(lambda parameters: clip_by_hand(subject, parameters, threshold), dtype)

    assert answer_by_adapter(ADAPTER, subject, dtype, threshold) == by_hand


@pytest.mark.parametrize("subject", sorted(SUBJECTS))
def test_options_reach_torchtitan(subject: str) -> None:
    _, norm = answer_by_adapter(ADAPTER, subject, "float32", 1.5, norm_type=1.0, error_if_nonfinite=True)

    assert norm is not None
    assert norm.numpy() == 29.5


@pytest.mark.parametrize("subject", sorted(SUBJECTS))
def test_option_that_torchtitan_does_not_have_is_refused(subject: str) -> None:
    with pytest.raises(FrameworkRaised, match="unexpected keyword argument 'eps'"):
        answer_by_adapter(ADAPTER, subject, "float32", 1.5, eps=1e-6)
