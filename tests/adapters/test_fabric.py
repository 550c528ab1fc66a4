"""Compare the Fabric adapter with direct calls of Fabric. Needs Fabric."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import pytest

try:
    from gradclip_adapters.frameworks.torch_based.fabric import FabricAdapter
except ImportError as error:
    if "fabric" in os.environ.get("GRADCLIP_REQUIRE", "").split(","):
        raise
    pytest.skip(f"Fabric is not installed in this environment: {error}", allow_module_level=True)

import lightning_fabric
import torch
from torch_calls import DTYPES, THRESHOLDS, answer_by_adapter, answer_by_hand

from gradclip_adapters.contract import FEATURES, Unsupported

ADAPTER = FabricAdapter()
SUBJECTS = {subject.name: subject for subject in ADAPTER.subjects()}


def clip_by_hand(subject: str, parameters: Sequence[torch.nn.Parameter], threshold: float) -> Any:
    """Call the function that the entry point names, without the adapter."""
    module, optimizer = torch.nn.ParameterList(parameters), torch.optim.SGD(parameters)
    fabric = lightning_fabric.Fabric(accelerator="cpu", devices=1)
    if "clip_val" in subject:
        return fabric.clip_gradients(module, optimizer, clip_val=threshold)
    return fabric.clip_gradients(module, optimizer, max_norm=threshold)


def test_contract_defines_every_feature() -> None:
    assert {feature for subject in SUBJECTS.values() for feature in subject.features} <= set(FEATURES)


def test_about_gives_the_imported_versions() -> None:
    about = ADAPTER.about()

    assert about.version == lightning_fabric.__version__
    assert about.environment["torch"] == torch.__version__


@pytest.mark.parametrize("subject", sorted(SUBJECTS))
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("threshold", THRESHOLDS)
def test_adapter_answers_like_a_direct_call(subject: str, dtype: str, threshold: float) -> None:
    by_hand = answer_by_hand(lambda parameters: clip_by_hand(subject, parameters, threshold), dtype)

    assert answer_by_adapter(ADAPTER, subject, dtype, threshold) == by_hand


def test_order_of_the_norm_reaches_fabric() -> None:
    subject = "lightning_fabric.Fabric.clip_gradients[max_norm]"

    _, norm = answer_by_adapter(ADAPTER, subject, "float32", 1.5, norm_type=1.0)

    assert norm is not None
    assert norm.numpy() == 29.5


@pytest.mark.parametrize("changes", [{"as_single": True}, {"as_generator": True}])
def test_parameters_without_an_optimizer_are_refused(changes: dict[str, bool]) -> None:
    with pytest.raises(Unsupported, match="takes a module or an optimizer"):
        answer_by_adapter(ADAPTER, "lightning_fabric.Fabric.clip_gradients[clip_val]", "float32", 1.5, **changes)
