"""Adapt fastai: a step of `Learner` with the callback `GradientClip`."""

from __future__ import annotations

from typing import Any, Callable, Mapping

import fastai
import torch
from fastai.callback.training import GradientClip
from fastai.data.core import DataLoaders
from fastai.learner import Learner
from fastai.optimizer import SGD
from torch.nn import Parameter

from ...contract import EntryPoint
from .given_gradients import GivenGradients, TrainingAdapter, train_model
from .parameters import DTYPES, NORM_TYPES, select_more

__all__ = ["FastaiAdapter"]


class FastaiAdapter(TrainingAdapter):
    """Adapter for the clip of fastai, which precedes the step of `Learner`."""

    def __init__(self) -> None:
        """List the entry points."""
        super().__init__("fastai", fastai.__version__, ENTRY_POINTS)


def _step(passed: Callable[[], list[Parameter]], options: Mapping[str, Any]) -> None:
    train_model(passed(), lambda model: _train(model, options))


def _train(model: GivenGradients, options: Mapping[str, Any]) -> None:
    batches = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(torch.zeros(1), torch.zeros(1)))
    clip = GradientClip(options["clip_norm"], **select_more(options))
    learner = Learner(
        DataLoaders(batches, []),
        model,
        loss_func=lambda loss, _: loss.float(),
        opt_func=SGD,
        lr=options.get("learning_rate", 1.0),
        train_bn=False,
        cbs=[clip],
    )
    with learner.no_bar(), learner.no_logging():
        learner.fit(1)


ENTRY_POINTS = [
    EntryPoint(
        "fastai.callback.training.GradientClip",
        "clip_by_global_norm",
        DTYPES,
        ("none_grads", "mixed_dtypes", "optimizer", "learning_rate", "norm_type"),
        NORM_TYPES,
        clip=_step,
    )
]
