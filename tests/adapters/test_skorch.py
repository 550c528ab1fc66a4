"""Test what only the adapter of skorch does. Needs skorch. `test_torch_based.py` tests the rest."""

from __future__ import annotations

import pytest
import skorch
import torch
from skorch.callbacks import GradientNormClipping
from torch_calls import answer_by_adapter

from gradclip_adapters.contract import Unsupported
from gradclip_adapters.registry import resolve


def test_net_in_training_clips_by_the_callback() -> None:
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


def test_single_tensor_without_a_name_is_unsupported() -> None:
    with pytest.raises(Unsupported, match="pairs of a name and a parameter"):
        answer_by_adapter(resolve("skorch"), "skorch.callbacks.GradientNormClipping", "float32", 1.5, as_single=True)
