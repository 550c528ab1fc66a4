"""Adapt Accelerate: `Accelerator.clip_grad_norm_` and `Accelerator.clip_grad_value_`."""

from __future__ import annotations

from typing import Any, Callable, Mapping

import accelerate

from ...contract import Subject
from .parameters import ANY_NORM, COMMON, DTYPES, NORM_TYPES, Parameters, ParametersAdapter, select_more

__all__ = ["AccelerateAdapter"]


class AccelerateAdapter(ParametersAdapter):
    """Adapter for the clips of Accelerate.

    Accelerate says of each that it "should be used in place of" torch's function, which takes a single tensor, too.
    """

    def __init__(self) -> None:
        """List the entry points."""
        super().__init__("Accelerate", accelerate.__version__, ENTRY_POINTS)


def _clip_by_norm(passed: Callable[[], Parameters], options: Mapping[str, Any]) -> Any:
    accelerator = accelerate.Accelerator(cpu=True)
    return accelerator.clip_grad_norm_(passed(), options["clip_norm"], **select_more(options))


def _clip_by_value(passed: Callable[[], Parameters], options: Mapping[str, Any]) -> Any:
    accelerator = accelerate.Accelerator(cpu=True)
    return accelerator.clip_grad_value_(passed(), options["max"], **select_more(options))


ENTRY_POINTS = [
    Subject(
        "accelerate.Accelerator.clip_grad_norm_",
        "clip_by_global_norm",
        DTYPES,
        (*COMMON, *ANY_NORM, "in_place"),
        NORM_TYPES,
        clip=_clip_by_norm,
    ),
    Subject(
        "accelerate.Accelerator.clip_grad_value_",
        "clip_by_value",
        DTYPES,
        (*COMMON, "in_place"),
        clip=_clip_by_value,
    ),
]
