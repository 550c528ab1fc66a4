"""Adapt Transformers: a step of `Trainer` with `max_grad_norm`."""

from __future__ import annotations

import os
import random
import tempfile
import unittest.mock
from typing import Any, Callable, Mapping

import numpy as np
import transformers
from torch.nn import Module, Parameter

from ...contract import EntryPoint
from .given_gradients import GivenGradients, TrainingAdapter, train_model
from .parameters import select_more

__all__ = ["TransformersAdapter"]


class TransformersAdapter(TrainingAdapter):
    """Adapter for the clip of Transformers, which precedes the step of `Trainer`."""

    def __init__(self) -> None:
        """List the entry points."""
        super().__init__("Transformers", transformers.__version__, ENTRY_POINTS, accelerate=_find_version())


def _find_version() -> str:
    import accelerate

    return str(accelerate.__version__)


class _Model(Module):  # type: ignore[misc] # mypy does not see torch
    """A model as `Trainer` takes it: it returns a dictionary with the loss."""

    def __init__(self, inner: GivenGradients) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, x: Any) -> dict[str, Any]:
        del x
        return {"loss": self.inner()}


def _step(passed: Callable[[], list[Parameter]], options: Mapping[str, Any]) -> None:
    train_model(passed(), lambda model: _train(model, options))


def _train(model: GivenGradients, options: Mapping[str, Any]) -> None:
    # `Trainer` sets the seeds of all random generators, as its argument `seed` says. That is not a part of the clip.
    states = random.getstate(), np.random.get_state()  # noqa: NPY002 - `Trainer` sets this state
    try:
        _run_trainer(model, options)
    finally:
        random.setstate(states[0])
        np.random.set_state(states[1])  # noqa: NPY002


def _run_trainer(model: GivenGradients, options: Mapping[str, Any]) -> None:
    # Before version 5, the arguments set environment variables for Accelerate. They are no part of the clip, either.
    with tempfile.TemporaryDirectory() as folder, unittest.mock.patch.dict(os.environ):
        arguments = transformers.TrainingArguments(
            folder,
            max_grad_norm=options["clip_norm"],
            learning_rate=options.get("learning_rate", 1.0),
            optim="sgd",
            lr_scheduler_type="constant",
            max_steps=1,
            per_device_train_batch_size=1,
            use_cpu=True,
            disable_tqdm=True,
            report_to="none",
            save_strategy="no",
            logging_strategy="no",
            **select_more(options),
        )
        transformers.Trainer(_Model(model), arguments, train_dataset=[{"x": 0.0}]).train()


ENTRY_POINTS = [
    EntryPoint(
        "transformers.Trainer(max_grad_norm)",
        "clip_by_global_norm",
        # A step takes a tenth of a second, so these dtypes stand for all.
        ("bfloat16", "float32"),
        ("none_grads", "mixed_dtypes", "optimizer", "learning_rate"),
        clip=_step,
    )
]
