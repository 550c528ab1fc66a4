"""Adapt Transformers: a step of `Trainer` with `max_grad_norm`, and on meshes the clip before this step."""

from __future__ import annotations

import os
import random
import tempfile
import unittest.mock
from typing import Any, Callable, Mapping, Sequence

import numpy as np
import transformers
from torch.nn import Module, Parameter, ParameterList

from ...contract import EntryPoint
from .engine_meshes import EnginesAdapter, list_on_meshes
from .parameters import DTYPES, GivenGradients, TrainingAdapter, select_more, train_model


class TransformersAdapter(EnginesAdapter, TrainingAdapter):
    """Adapter for the clip of Transformers, which precedes the step of `Trainer`."""

    def __init__(self) -> None:
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
    more = {"learning_rate": options.get("learning_rate", 1.0), **select_more(options)}
    try:
        with tempfile.TemporaryDirectory() as folder, unittest.mock.patch.dict(os.environ):
            _make_trainer(_Model(model), folder, options["clip_norm"], more).train()
    finally:
        random.setstate(states[0])
        np.random.set_state(states[1])  # noqa: NPY002


def _make_trainer(model: Module, folder: str, threshold: float, more: Mapping[str, Any]) -> Any:
    # Before version 5, the arguments set environment variables for Accelerate. The caller restores them.
    arguments = transformers.TrainingArguments(
        folder,
        max_grad_norm=threshold,
        optim="sgd",
        lr_scheduler_type="constant",
        max_steps=1,
        per_device_train_batch_size=1,
        use_cpu=True,
        disable_tqdm=True,
        report_to="none",
        save_strategy="no",
        logging_strategy="no",
        **more,
    )
    return transformers.Trainer(model, arguments, train_dataset=[{"x": 0.0}])


def _clip_on_mesh(passed: Callable[[], list[Parameter]], options: Mapping[str, Any]) -> Any:
    """Call the clip of `Trainer.train`. The model is on a mesh already, so Accelerate does not prepare it."""
    model = _Listed(passed())
    with tempfile.TemporaryDirectory() as folder, unittest.mock.patch.dict(os.environ):
        trainer = _make_trainer(model, folder, options["clip_norm"], select_more(options))
    # Nothing public clips without a step.
    return trainer._clip_grad_norm(model)


class _Listed(Module):  # type: ignore[misc] # mypy does not see torch
    """A model with the parameters of a rank."""

    def __init__(self, parameters: Sequence[Parameter]) -> None:
        super().__init__()
        self.held = ParameterList(parameters)


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

# Older versions clip inside the loop, where nothing but a whole training reaches it.
if hasattr(transformers.Trainer, "_clip_grad_norm"):
    ENTRY_POINTS += list_on_meshes("transformers.Trainer(max_grad_norm)", _clip_on_mesh, (), DTYPES)
