"""Adapt skorch: the callback `GradientNormClipping`, called as `NeuralNet.train_step` calls it."""

from __future__ import annotations

from typing import Any, Callable, Mapping, Sequence

import skorch
from skorch.callbacks import GradientNormClipping
from torch.nn import Parameter

from ...contract import Call, Reply, Subject, Unsupported
from .parameters import COMMON, DTYPES, NORM_TYPES, ParametersAdapter, answer_call, select_more

__all__ = ["SkorchAdapter"]


class SkorchAdapter(ParametersAdapter):
    """Adapter for the clip of skorch, which gets pairs of a name and a parameter, and returns no norm."""

    def __init__(self) -> None:
        """List the entry points."""
        super().__init__("skorch", skorch.__version__, ENTRY_POINTS)

    def answer(self, entry: Subject, call: Call) -> Reply:
        """Make the call on new parameters, and return their gradients."""
        if "as_single" in call.options:
            message = "it takes pairs of a name and a parameter"
            raise Unsupported(message, "interface")
        return answer_call(entry, call)


def _clip(passed: Callable[[], Sequence[Parameter]], options: Mapping[str, Any]) -> None:
    more = select_more(options)
    # skorch has another name for the order of the norm.
    if "norm_type" in more:
        more["gradient_clip_norm_type"] = more.pop("norm_type")
    callback = GradientNormClipping(gradient_clip_value=options["clip_norm"], **more).initialize()
    named = ((str(number), parameter) for number, parameter in enumerate(passed()))
    callback.on_grad_computed(None, named_parameters=named)


ENTRY_POINTS = [
    Subject(
        "skorch.callbacks.GradientNormClipping",
        "clip_by_global_norm",
        DTYPES,
        (*(feature for feature in COMMON if feature != "single"), "in_place", "norm_type"),
        NORM_TYPES,
        clip=_clip,
    )
]
