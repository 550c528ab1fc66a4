"""Adapt MMEngine: `OptimWrapper.step` with `clip_grad`, by norm and by value."""

from __future__ import annotations

from typing import Any, Callable, Mapping

import mmengine
import torch
from mmengine.optim import OptimWrapper
from torch.nn import Parameter

from ...contract import Subject
from .parameters import DTYPES, NORM_TYPES, OWNED, ParametersAdapter, select_more

__all__ = ["MMEngineAdapter"]


class MMEngineAdapter(ParametersAdapter):
    """Adapter for the clips of MMEngine, which precede the step of an optimizer."""

    def __init__(self) -> None:
        """List the entry points."""
        super().__init__("MMEngine", mmengine.__version__, ENTRY_POINTS)


def _step(parameters: list[Parameter], options: Mapping[str, Any], clip_grad: Mapping[str, Any]) -> None:
    optimizer = torch.optim.SGD(parameters, lr=options.get("learning_rate", 1.0))
    OptimWrapper(optimizer, clip_grad={**clip_grad, **select_more(options)}).step()


def _clip_by_norm(passed: Callable[[], list[Parameter]], options: Mapping[str, Any]) -> None:
    _step(passed(), options, {"max_norm": options["clip_norm"]})


def _clip_by_value(passed: Callable[[], list[Parameter]], options: Mapping[str, Any]) -> None:
    _step(passed(), options, {"type": "value", "clip_value": options["max"]})


#: Each call takes a step, so the parameters of an earlier call are not at zero any more.
FEATURES = (*(feature for feature in OWNED if feature != "reuses"), "optimizer", "learning_rate")
ENTRY_POINTS = [
    Subject(
        "mmengine.optim.OptimWrapper[max_norm]",
        "clip_by_global_norm",
        DTYPES,
        (*FEATURES, "norm_type", "error_if_nonfinite"),
        NORM_TYPES,
        clip=_clip_by_norm,
    ),
    Subject(
        "mmengine.optim.OptimWrapper[clip_value]",
        "clip_by_value",
        DTYPES,
        FEATURES,
        clip=_clip_by_value,
    ),
]
