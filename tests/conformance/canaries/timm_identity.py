"""Make the clips of timm do nothing."""

from __future__ import annotations

import warnings
from typing import Any

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    import timm.utils


def leave(parameters: Any, threshold: float, *more: Any, **options: Any) -> None:
    """Clip nothing."""


timm.utils.dispatch_clip_grad = leave
timm.utils.adaptive_clip_grad = leave

from gradclip_adapters.frameworks.torch_based.wrappers import use_timm  # noqa: E402 - it must find the functions replaced

adapter = use_timm()
