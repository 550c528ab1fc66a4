"""Adapt timm: `timm.utils.dispatch_clip_grad` in its three modes, and `timm.utils.adaptive_clip_grad`."""

from __future__ import annotations

import warnings
from typing import Any, Callable, Mapping

with warnings.catch_warnings():
    # torchvision warns if its own extension does not load. timm's clips do not use it.
    warnings.filterwarnings("ignore", "Failed to load image Python extension")
    import timm.utils

from ...contract import Subject
from .parameters import COMMON, DTYPES, NORM_TYPES, Parameters, ParametersAdapter, select_more

__all__ = ["TimmAdapter"]


class TimmAdapter(ParametersAdapter):
    """Adapter for the clips of timm. None of them returns a norm."""

    def __init__(self) -> None:
        """List the entry points."""
        super().__init__("timm", timm.__version__, ENTRY_POINTS)


def _make_clip(mode: str, threshold: str) -> Callable[[Callable[[], Parameters], Mapping[str, Any]], None]:
    """Return a function that clips in a mode, whose threshold is an option of the call."""

    def clip(passed: Callable[[], Parameters], options: Mapping[str, Any]) -> None:
        timm.utils.dispatch_clip_grad(passed(), options[threshold], mode, **select_more(options))

    return clip


def _clip_units(passed: Callable[[], Parameters], options: Mapping[str, Any]) -> None:
    timm.utils.adaptive_clip_grad(passed(), options["clip_factor"], **select_more(options))


ENTRY_POINTS = [
    Subject(
        "timm.utils.dispatch_clip_grad[norm]",
        "clip_by_global_norm",
        DTYPES,
        (*COMMON, "norm_type", "in_place"),
        NORM_TYPES,
        clip=_make_clip("norm", "clip_norm"),
    ),
    Subject(
        "timm.utils.dispatch_clip_grad[value]",
        "clip_by_value",
        DTYPES,
        (*COMMON, "in_place"),
        clip=_make_clip("value", "max"),
    ),
    Subject(
        "timm.utils.dispatch_clip_grad[agc]",
        "clip_unitwise",
        DTYPES,
        (*COMMON, "in_place"),
        clip=_make_clip("agc", "clip_factor"),
    ),
    Subject(
        "timm.utils.adaptive_clip_grad",
        "clip_unitwise",
        DTYPES,
        (*COMMON, "eps", "in_place"),
        clip=_clip_units,
    ),
]
