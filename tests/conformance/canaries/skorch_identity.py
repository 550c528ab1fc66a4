"""Make the clips of skorch do nothing."""

from __future__ import annotations

from typing import Any

from skorch.callbacks import GradientNormClipping


def leave(self: Any, net: Any, named_parameters: Any, **options: Any) -> None:
    """Clip nothing."""


GradientNormClipping.on_grad_computed = leave

from gradclip_adapters.frameworks.torch_based.wrappers import use_skorch  # noqa: E402 - it must find the functions replaced

adapter = use_skorch()
