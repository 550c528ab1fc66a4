"""Adapt Lightning Fabric: `Fabric.clip_gradients`, by norm and by value."""

from __future__ import annotations

from typing import Any, Callable, Mapping

import lightning_fabric
import torch
from torch.nn import Parameter, ParameterList

from ...contract import Subject
from .parameters import ANY_NORM, DTYPES, NORM_TYPES, OWNED, ParametersAdapter, select_more

__all__ = ["FabricAdapter"]


class FabricAdapter(ParametersAdapter):
    """Adapter for the clip of Fabric, which finds the parameters in an optimizer."""

    def __init__(self) -> None:
        """Make a Fabric for the CPU."""
        super().__init__("Lightning Fabric", lightning_fabric.__version__, ENTRY_POINTS)


def _clip(parameters: list[Parameter], **options: Any) -> Any:
    fabric = lightning_fabric.Fabric(accelerator="cpu", devices=1)
    return fabric.clip_gradients(ParameterList(parameters), torch.optim.SGD(parameters), **options)


def _clip_by_norm(passed: Callable[[], list[Parameter]], options: Mapping[str, Any]) -> Any:
    return _clip(passed(), max_norm=options["clip_norm"], **select_more(options))


def _clip_by_value(passed: Callable[[], list[Parameter]], options: Mapping[str, Any]) -> Any:
    return _clip(passed(), clip_val=options["max"], **select_more(options))


ENTRY_POINTS = [
    Subject(
        "lightning_fabric.Fabric.clip_gradients[max_norm]",
        "clip_by_global_norm",
        DTYPES,
        (*OWNED, *ANY_NORM, "in_place", "error_if_nonfinite"),
        NORM_TYPES,
        clip=_clip_by_norm,
    ),
    Subject(
        "lightning_fabric.Fabric.clip_gradients[clip_val]",
        "clip_by_value",
        DTYPES,
        (*OWNED, "in_place"),
        clip=_clip_by_value,
    ),
]
