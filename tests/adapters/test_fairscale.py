"""Compare the FairScale adapter with direct calls of FairScale. Needs FairScale."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import pytest

try:
    from gradclip_adapters.frameworks.torch_based.fairscale import FairScaleAdapter
except ImportError as error:
    if "fairscale" in os.environ.get("GRADCLIP_REQUIRE", "").split(","):
        raise
    pytest.skip(f"FairScale is not installed in this environment: {error}", allow_module_level=True)

import fairscale
import torch
from fairscale.optim import OSS
from torch_calls import THRESHOLDS, answer_by_adapter, answer_by_hand

from gradclip_adapters.contract import FEATURES, Unsupported

ADAPTER = FairScaleAdapter()
SUBJECTS = {subject.name: subject for subject in ADAPTER.subjects()}
DTYPES = ("float16", "bfloat16", "float32")


def clip_by_hand(subject: str, parameters: Sequence[torch.nn.Parameter], threshold: float) -> Any:
    """Call the function that the entry point names, without the adapter."""
    return OSS(list(parameters), torch.optim.SGD, lr=1.0).clip_grad_norm(threshold)


def test_contract_defines_every_feature() -> None:
    assert {feature for subject in SUBJECTS.values() for feature in subject.features} <= set(FEATURES)


def test_about_gives_the_imported_versions() -> None:
    about = ADAPTER.about()

    assert about.version == fairscale.__version__
    assert about.environment["torch"] == torch.__version__


@pytest.mark.parametrize("subject", sorted(SUBJECTS))
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("threshold", THRESHOLDS)
def test_adapter_answers_like_a_direct_call(subject: str, dtype: str, threshold: float) -> None:
    by_hand = answer_by_hand(lambda parameters: clip_by_hand(subject, parameters, threshold), dtype)

    assert answer_by_adapter(ADAPTER, subject, dtype, threshold) == by_hand


def test_order_of_the_norm_reaches_fairscale() -> None:
    _, norm = answer_by_adapter(ADAPTER, "fairscale.optim.OSS.clip_grad_norm", "float32", 1.5, norm_type=1.0)

    assert norm is not None
    assert norm.numpy() == 29.5


@pytest.mark.parametrize("changes", [{"as_single": True}, {"as_generator": True}])
def test_parameters_without_an_optimizer_are_refused(changes: dict[str, bool]) -> None:
    with pytest.raises(Unsupported, match="takes a module or an optimizer"):
        answer_by_adapter(ADAPTER, "fairscale.optim.OSS.clip_grad_norm", "float32", 1.5, **changes)
