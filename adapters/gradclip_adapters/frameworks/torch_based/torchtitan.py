"""Adapt torchtitan: `torchtitan.distributed.utils.clip_grad_norm_` in one process."""

from __future__ import annotations

from importlib.metadata import version
from typing import Any, Callable, Mapping

from torchtitan.distributed import utils

from ...contract import Subject
from .parameters import (
    ANY_NORM,
    COMMON,
    DTYPES,
    NORM_TYPES,
    Clip,
    Parameters,
    ParametersAdapter,
    select_more,
)

__all__ = ["TorchtitanAdapter"]


class TorchtitanAdapter(ParametersAdapter):
    """Adapter for the clip of torchtitan, with `foreach` true, false and None."""

    def __init__(self) -> None:
        """List the entry points."""
        super().__init__("torchtitan", version("torchtitan"), ENTRY_POINTS)


def _make_clip(foreach: bool | None) -> Clip:
    def clip(passed: Callable[[], Parameters], options: Mapping[str, Any]) -> Any:
        return utils.clip_grad_norm_(passed(), options["clip_norm"], foreach=foreach, **select_more(options))

    return clip


ENTRY_POINTS = [
    Subject(
        f"torchtitan.distributed.utils.clip_grad_norm_[foreach={foreach}]",
        "clip_by_global_norm",
        DTYPES,
        (*COMMON, *ANY_NORM, "in_place", "error_if_nonfinite"),
        NORM_TYPES,
        clip=_make_clip(foreach),
    )
    for foreach in (True, False, None)
]
