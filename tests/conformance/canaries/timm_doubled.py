"""Replace the clips of timm by NumPy code that doubles the results."""

from __future__ import annotations

import warnings
from typing import Any

import doubled
import torch_doubled

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    import timm.utils


def clip_units(parameters: Any, factor: float, **options: Any) -> None:
    """Clip with NumPy, and double the results."""
    for parameter in parameters:
        if parameter.grad is not None:
            values = parameter.grad.numpy()
            values[...] = doubled.double_unitwise(values, parameter.detach().numpy(), factor, 0)


def dispatch(parameters: Any, threshold: float, mode: str, **options: Any) -> None:
    """Clip with NumPy, and double the results."""
    clips = {"norm": torch_doubled.clip_grad_norm_, "value": torch_doubled.clip_grad_value_, "agc": clip_units}
    clips[mode](parameters, threshold)


timm.utils.dispatch_clip_grad = dispatch
timm.utils.adaptive_clip_grad = clip_units

from gradclip_adapters.frameworks.torch_based.wrappers import use_timm  # noqa: E402 - it must find the functions replaced

adapter = use_timm()
