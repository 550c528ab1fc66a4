"""Compare the Accelerate adapter with direct calls of Accelerate. Needs Accelerate."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import pytest

try:
    from gradclip_adapters.frameworks.torch_based.accelerate import AccelerateAdapter
except ImportError as error:
    if "accelerate" in os.environ.get("GRADCLIP_REQUIRE", "").split(","):
        raise
    pytest.skip(f"Accelerate is not installed in this environment: {error}", allow_module_level=True)

import accelerate
import torch
from torch_calls import DTYPES, THRESHOLDS, answer_by_adapter, answer_by_hand

from gradclip_adapters.contract import FEATURES

ADAPTER = AccelerateAdapter()
SUBJECTS = {subject.name: subject for subject in ADAPTER.subjects()}


def clip_by_hand(subject: str, parameters: Sequence[torch.nn.Parameter], threshold: float) -> Any:
    """Call the function that the entry point names, without the adapter."""
    accelerator = accelerate.Accelerator(cpu=True)
    if subject.endswith("clip_grad_value_"):
        return accelerator.clip_grad_value_(parameters, threshold)
    return accelerator.clip_grad_norm_(parameters, threshold)


def test_contract_defines_every_feature() -> None:
    assert {feature for subject in SUBJECTS.values() for feature in subject.features} <= set(FEATURES)


def test_about_gives_the_imported_versions() -> None:
    about = ADAPTER.about()

    assert about.version == accelerate.__version__
    assert about.environment["torch"] == torch.__version__


@pytest.mark.parametrize("subject", sorted(SUBJECTS))
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("threshold", THRESHOLDS)
def test_adapter_answers_like_a_direct_call(subject: str, dtype: str, threshold: float) -> None:
    by_hand = answer_by_hand(lambda parameters: clip_by_hand(subject, parameters, threshold), dtype)

    assert answer_by_adapter(ADAPTER, subject, dtype, threshold) == by_hand


@pytest.mark.parametrize("subject", sorted(SUBJECTS))
def test_generator_gives_the_same_answer_as_a_list(subject: str) -> None:
    answer = answer_by_adapter(ADAPTER, subject, "float32", 1.5, as_generator=True)

    assert answer == answer_by_adapter(ADAPTER, subject, "float32", 1.5)


def test_order_of_the_norm_reaches_accelerate() -> None:
    _, norm = answer_by_adapter(ADAPTER, "accelerate.Accelerator.clip_grad_norm_", "float32", 1.5, norm_type=1.0)

    assert norm is not None
    assert norm.numpy() == 29.5
