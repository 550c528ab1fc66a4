"""Adapt FairScale: `OSS.clip_grad_norm`, the clip of its sharded optimizer, in a group of one process."""

from __future__ import annotations

from typing import Any, Callable, Mapping

import fairscale
import torch
from fairscale.optim import OSS
from torch.nn import Parameter

from ...contract import Subject
from .parameters import ANY_NORM, NORM_TYPES, OWNED, ParametersAdapter, select_more
from .process_group import join_group_of_one

__all__ = ["FairScaleAdapter"]


class FairScaleAdapter(ParametersAdapter):
    """Adapter for the clip of FairScale's sharded optimizer."""

    def __init__(self) -> None:
        """Join a group of one process, because the optimizer shards its state over a group."""
        join_group_of_one()
        super().__init__("FairScale", fairscale.__version__, ENTRY_POINTS)


def _clip(passed: Callable[[], list[Parameter]], options: Mapping[str, Any]) -> Any:
    optimizer = OSS(passed(), torch.optim.SGD, lr=1.0)
    return optimizer.clip_grad_norm(options["clip_norm"], **select_more(options))


ENTRY_POINTS = [
    Subject(
        "fairscale.optim.OSS.clip_grad_norm",
        "clip_by_global_norm",
        ("float16", "bfloat16", "float32"),
        (*(feature for feature in OWNED if feature != "mixed_dtypes"), *ANY_NORM, "in_place"),
        NORM_TYPES,
        clip=_clip,
    )
]
